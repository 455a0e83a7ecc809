"""What the others taught the global model last round, sent back as one's own (delta weights, 1911.12560)."""

from __future__ import annotations

from torch import Tensor

from hanse.adversary.updates.base import Scene, everybody
from hanse.recipe.adversary import AdversarySpec


def free_rider(spec: AdversarySpec, scene: Scene) -> Tensor:
    """The global model's last step; nothing in the first round. Shape (F, D)."""
    return everybody(scene.moved_D, scene)
