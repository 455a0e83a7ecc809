"""Prompts chosen by predicted variance: a simple relative of VIP (2602.01601), in our form.

VIP predicts each prompt's chance of success by a Gaussian process over embeddings and gives the prompts of a
batch different numbers of rollouts, such that the gradient's variance is least. Here groups stay of one size,
and prompts are *chosen* in proportion to the predicted deviation sqrt(p (1 - p)), p being an exponential
average of the problem's own past rewards: expected rollouts go where VIP would send them. Unlike VIP, and
like dynamic sampling, this changes which prompts the objective is about.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hanse.policy.rollout import Group

PAST = 0.5
"""Share of the past in a problem's average."""
FLOOR = 0.1
"""Of the predicted deviation, which is 0.5 at most: what looks solved or hopeless is still tried."""


def unseen(count: int) -> Tensor:
    """Averages of problems that were never tried: -1. Shape (N,), float64."""
    return torch.full((count,), -1.0, dtype=torch.float64)


def predicted(success_N: Tensor) -> Tensor:
    """Chances of success: those never tried count like the mean of the others, and one half at first."""
    tried = success_N >= 0
    prior = success_N[tried].mean() if bool(tried.any()) else torch.tensor(0.5, dtype=torch.float64)
    return torch.where(tried, success_N, prior)


def probabilities(success_N: Tensor) -> Tensor:
    """Of drawing each problem. Shape (N,), summing to one."""
    chance = predicted(success_N)
    weights = (chance * (1 - chance)).sqrt().clamp(min=FLOOR)
    return weights / weights.sum()


def absorbed(success_N: Tensor, places: Sequence[int], groups: Sequence[Group]) -> Tensor:
    """The averages after `groups`, whose problems are at `places`. Rewards count as chances, within [0, 1];
    unscored ones do not count."""
    after, prior = success_N.clone(), predicted(success_N)
    for place, group in zip(places, groups, strict=True):
        assert group.rewards_G is not None
        mean = group.rewards_G.clamp(0, 1).nanmean()
        if not bool(mean.isnan()):
            before = after[place] if float(after[place]) >= 0 else prior[place]
            after[place] = PAST * before + (1 - PAST) * mean
    return after
