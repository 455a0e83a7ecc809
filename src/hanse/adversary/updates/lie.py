"""A little is enough (1902.06156): as far from the mean as keeps a majority between it and the lie."""

from __future__ import annotations

from statistics import NormalDist

from torch import Tensor

from hanse.adversary.updates.base import Scene, everybody
from hanse.recipe.adversary import AdversarySpec


def lie(spec: AdversarySpec, scene: Scene) -> Tensor:
    """mean - z std of every coordinate, population std. Shape (F, D)."""
    f = len(scene.liars)
    z = largest_z(scene.clients, f) if spec.factor is None else spec.factor
    return everybody(scene.seen_KD.mean(0) - z * scene.seen_KD.std(0, correction=0), scene)


def largest_z(n: int, f: int) -> float:
    """Phi^-1((n - f - s) / (n - f)) with s = floor(n / 2 + 1) - f, the honest clients that must be won over;
    0 where the liars are a majority already or nobody has to be passed."""
    s = n // 2 + 1 - f
    if n <= f or not 0 < s < n - f:
        return 0.0
    return max(0.0, NormalDist().inv_cdf((n - f - s) / (n - f)))
