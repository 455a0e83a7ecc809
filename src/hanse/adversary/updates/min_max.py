"""Min-Max (NDSS 2021): no farther from any honest update than two of them are apart."""

from __future__ import annotations

from torch import Tensor

from hanse.adversary.updates.base import Scene, everybody
from hanse.adversary.updates.halving import from_lie, largest, perturbation, squared_distances
from hanse.recipe.adversary import AdversarySpec


def min_max(spec: AdversarySpec, scene: Scene) -> Tensor:
    """mean + gamma p, the largest gamma for which max_i |lie - g_i| <= max_ij |g_i - g_j|. Shape (F, D)."""
    seen, direction = scene.seen_KD, perturbation(scene.seen_KD, spec.perturbation)
    bound, distances = float(squared_distances(seen).max()), from_lie(seen, direction)
    gamma = largest(lambda gamma: float(distances(gamma).max()) <= bound)
    return everybody(seen.mean(0) + gamma * direction, scene)
