"""The opposite of what was learnt."""

from __future__ import annotations

from torch import Tensor

from hanse.adversary.updates.base import Scene
from hanse.recipe.adversary import AdversarySpec


def sign_flip(spec: AdversarySpec, scene: Scene) -> Tensor:
    """-factor g (1 where not said). Shape (F, D)."""
    return scene.own_FD * -(1.0 if spec.factor is None else spec.factor)
