"""Advantages: how much better a completion is than its group-mates."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Baseline = Literal["mean", "leave_one_out"]
Scale = Literal["group", "group_population", "batch", "none"]
EPSILON = 1e-4


def group_mean_std(rewards_PG: Tensor, *, population: bool = False) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each group over its scored members (NaN = unscored). Shape (P,).

    Groups with fewer than two scored members have std 0; with none, mean 0.
    """
    mean, variance = group_mean_variance(rewards_PG, population=population)
    return mean, variance.sqrt()


def group_mean_variance(rewards_PG: Tensor, *, population: bool = False) -> tuple[Tensor, Tensor]:
    """The same, the variance before its root."""
    scored = ~rewards_PG.isnan()
    n = scored.sum(-1)
    filled = rewards_PG.nan_to_num(0.0)
    mean = filled.sum(-1) / n.clamp(min=1)
    squares = ((filled - mean.unsqueeze(-1)).square() * scored).sum(-1)
    return mean, squares / (n if population else n - 1).clamp(min=1)


def group_advantages(
    rewards_PG: Tensor, *, baseline: Baseline = "mean", scale: Scale = "group", epsilon: float = EPSILON
) -> Tensor:
    """Advantages of P groups of G rewards, in the dtype of `rewards_PG`. Shape (P, G).

    baseline "mean": R - mean of the group (GRPO, 2402.03300). "leave_one_out": R - mean of the others
    (RLOO, 2402.14740), that is G/(G-1) times the former.
    scale "group": over the unbiased std + epsilon, as TRL does; "group_population": the population std;
    "batch": std of all scored rewards (Lite-PPO, 2508.08221); "none" (Dr. GRPO, 2503.20783).

    Unscored members (NaN) get 0 and do not count in the statistics. A group whose scored rewards are all
    equal, or that has fewer than two of them, gets exactly 0.

    Raises ValueError for groups of one: their advantage is undefined.
    """
    if rewards_PG.shape[-1] < 2:
        raise ValueError("a group needs at least two members: the advantage of a single one is undefined")
    scored = ~rewards_PG.isnan()
    n = scored.sum(-1, keepdim=True).to(rewards_PG.dtype)
    mean, std = group_mean_std(rewards_PG, population=scale == "group_population")
    centred = rewards_PG - mean.unsqueeze(-1)
    if baseline == "leave_one_out":
        centred = centred * (n / (n - 1).clamp(min=1))
    if scale in ("group", "group_population"):
        centred = centred / (std.unsqueeze(-1) + epsilon)
    elif scale == "batch":
        values = rewards_PG[scored]
        centred = centred / ((values.std() if values.numel() > 1 else values.new_zeros(())) + epsilon)
    return torch.where(scored & informative(rewards_PG).unsqueeze(-1), centred, torch.zeros_like(centred))


def informative(rewards_PG: Tensor) -> Tensor:
    """Whether a group's scored rewards differ: only then is there a gradient. Shape (P,)."""
    return rewards_PG.nan_to_num(nan=-torch.inf).amax(-1) > rewards_PG.nan_to_num(nan=torch.inf).amin(-1)
