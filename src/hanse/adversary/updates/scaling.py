"""Model replacement: an update so long that the mean becomes the liar's model (1807.00459)."""

from __future__ import annotations

from torch import Tensor

from hanse.adversary.updates.base import Scene
from hanse.recipe.adversary import AdversarySpec


def scaling(spec: AdversarySpec, scene: Scene) -> Tensor:
    """factor g; where not said n / f, so that f liars of n together replace the model. Shape (F, D)."""
    return scene.own_FD * (scene.clients / len(scene.liars) if spec.factor is None else spec.factor)
