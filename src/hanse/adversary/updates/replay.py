"""An old upload again: once honest, no longer of use."""

from __future__ import annotations

from torch import Tensor

from hanse.adversary.updates.base import Scene
from hanse.recipe.adversary import AdversarySpec


def replay(spec: AdversarySpec, scene: Scene) -> Tensor:
    """Each liar's update of its first round. Shape (F, D)."""
    return scene.first_FD
