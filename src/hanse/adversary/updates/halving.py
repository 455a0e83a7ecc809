"""The largest step away from the mean that still looks like one of the honest updates (NDSS 2021)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_HALVINGS = 60
_DOUBLINGS = 40


def perturbation(seen_KD: Tensor, kind: str) -> Tensor:
    """Against the mean: -unit(mean), -std, or -sign(mean). Shape (D,)."""
    mean_D = seen_KD.mean(0)
    if kind == "std":
        return -seen_KD.std(0, correction=0)
    return -mean_D.sign() if kind == "sign" else -mean_D / mean_D.norm().clamp(min=1e-30)


def squared_distances(seen_KD: Tensor) -> Tensor:
    """Between each two updates, from differences: never negative. Shape (K, K)."""
    return torch.cdist(seen_KD, seen_KD, compute_mode="donot_use_mm_for_euclid_dist").square()


def from_lie(seen_KD: Tensor, direction_D: Tensor) -> Callable[[float], Tensor]:
    """gamma -> squared distances of mean + gamma direction to each update, shape (K,)."""
    away_KD = seen_KD.mean(0) - seen_KD
    square_K, cross_K = away_KD.square().sum(1), away_KD @ direction_D
    length = direction_D.square().sum()
    return lambda gamma: square_K + 2 * gamma * cross_K + gamma * gamma * length


def largest(fits: Callable[[float], bool]) -> float:
    """The largest gamma >= 0 that fits, to float precision; `fits` must hold at 0, and up to one place only.

    0 where everything fits, as a direction of length 0 has it.
    """
    high = 1.0
    for _ in range(_DOUBLINGS):
        if not fits(high):
            break
        high *= 2
    else:
        return 0.0
    low = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
