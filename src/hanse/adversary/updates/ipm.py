"""Inner product manipulation (1903.03936): against what the honest clients agree on."""

from __future__ import annotations

from torch import Tensor

from hanse.adversary.updates.base import Scene, everybody
from hanse.recipe.adversary import AdversarySpec


def ipm(spec: AdversarySpec, scene: Scene) -> Tensor:
    """-factor times the mean of the updates seen (1 where not said). Shape (F, D)."""
    return everybody(scene.seen_KD.mean(0) * -(1.0 if spec.factor is None else spec.factor), scene)
