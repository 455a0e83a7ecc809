"""Signals under privacy: reward means and deviations with noise, or constants.

Of rewards in [0, 1] a group's mean m and population deviation s have m² + s² = mean of squares <= 1, so one
problem moves the pair of sums (sum of m, sum of s) by a vector no longer than 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from hanse.grpo.advantages import group_mean_std


def signal_sums(rewards_P: Sequence[Tensor]) -> Tensor:
    """(sum of m, sum of s) over P groups' rewards, those outside [0, 1] moved to its ends. NaN = unscored; a
    group without scores adds nothing. Float64, shape (2,)."""
    total = torch.zeros(2, dtype=torch.float64)
    for rewards_G in rewards_P:
        bounded = rewards_G.double().clamp(0, 1).unsqueeze(0)
        mean, std = group_mean_std(bounded, population=True)
        total += torch.cat([mean, std])
    return total


def noised_sums(sums: Tensor, noise: float, scale: float, normal: Tensor) -> Tensor:
    """The sums as they may be told. They share a mechanism with the clipped gradients, in which they weigh
    `scale`: the joint sensitivity is sqrt(1 + scale²), and so is the factor of all noise. Shape (2,)."""
    deviation = noise * math.sqrt(1 + scale**2) / scale
    return sums + deviation * normal
