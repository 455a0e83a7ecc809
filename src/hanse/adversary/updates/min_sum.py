"""Min-Sum (NDSS 2021): in sum no farther from the honest updates than one of them is from the others."""

from __future__ import annotations

from torch import Tensor

from hanse.adversary.updates.base import Scene, everybody
from hanse.adversary.updates.halving import from_lie, largest, perturbation, squared_distances
from hanse.recipe.adversary import AdversarySpec


def min_sum(spec: AdversarySpec, scene: Scene) -> Tensor:
    """mean + gamma p with the largest gamma for which sum_i |lie - g_i|^2 <= max_i sum_j |g_i - g_j|^2. Shape
    (F, D)."""
    seen, direction = scene.seen_KD, perturbation(scene.seen_KD, spec.perturbation)
    bound, distances = float(squared_distances(seen).sum(1).max()), from_lie(seen, direction)
    gamma = largest(lambda gamma: float(distances(gamma).sum()) <= bound)
    return everybody(seen.mean(0) + gamma * direction, scene)
