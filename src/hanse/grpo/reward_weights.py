"""Several rewards as one advantage, with weights that move by hypergradients (FedMOA, 2602.00453; our form).

With theta(s+1) = theta(s) - lr * sum_m weight_m g_m(s), the primary loss changes with a weight by
dL_1/dweight_m = -lr <g_1(s+1), g_m(s)>: a reward helps as far as its last gradient goes the way of the
primary one now. One that is saturated has no variance in its groups, hence no gradient, and loses weight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hanse.grpo.advantages import Baseline, Scale, group_advantages
from hanse.policy.rollout import Group, RewardParts
from hanse.recipe.reward_weights import RewardWeightsSpec

PAST = 0.9
"""Share of the past in the mean squared norm of the primary gradient."""
_EPSILON = 1e-12
_MOST = 1.0
"""No look changes a weight more than e-fold."""


@dataclass(frozen=True)
class Balance:
    """What a learner knows of its rewards, never changed in place.

    `weights_M` sum to 1. `norm`: smoothed squared norm of the primary gradient, None before the first look;
    `past_MN`: gradients at the last look, float32, shape (M, N).
    """

    weights_M: tuple[float, ...]
    norm: float | None = None
    past_MN: Tensor | None = None


def started(groups: Sequence[Group]) -> Balance:
    """The recipe's weights, by size, scaled to sum 1: signs are in the rewards."""
    sizes = [abs(weight) for weight in _parts(groups[0]).weights_M]
    return Balance(tuple(size / math.fsum(sizes) for size in sizes))


def names_of(groups: Sequence[Group]) -> tuple[str, ...]:
    return _parts(groups[0]).names_M


def parted_advantages(groups: Sequence[Group], baseline: Baseline, scale: Scale) -> Tensor:
    """Of each reward by itself; shape (M, P, G), float64. Where one did not apply its advantage is 0."""
    signs = torch.tensor(_parts(groups[0]).weights_M).sign().view(-1, 1, 1)
    rewards = torch.stack([_parts(group).values_MG for group in groups], 1) * signs
    return torch.stack([group_advantages(one, baseline=baseline, scale=scale) for one in rewards])


def assign(groups: Sequence[Group], advantages_MPG: Tensor, weights_M: Sequence[float]) -> None:
    """Write sum_m weight_m A_m into the groups."""
    weights = torch.tensor(weights_M, dtype=advantages_MPG.dtype)
    for group, row in zip(groups, torch.einsum("m,mpg->pg", weights, advantages_MPG), strict=True):
        group.advantages_G = row


def looked(balance: Balance, gradients_MN: Tensor, spec: RewardWeightsSpec) -> Balance:
    """After a look at all gradients: weights moved by what the last ones did for the primary reward. A look
    with a gradient that is not finite tells nothing, and would stay in the mean for good."""
    if not bool(gradients_MN.isfinite().all()):
        return balance
    primary = gradients_MN[spec.primary]
    now = float(primary.double().square().sum())
    norm = now if balance.norm is None else PAST * balance.norm + (1 - PAST) * now
    if balance.past_MN is None:
        return replace(balance, norm=norm, past_MN=gradients_MN)
    gains = hypergradients(primary, balance.past_MN, norm)
    return Balance(moved(balance.weights_M, gains, spec.rate, spec.floor), norm, gradients_MN)


def hypergradients(primary_N: Tensor, past_MN: Tensor, norm: float) -> list[float]:
    """h_m = <g_1(s+1), g_m(s)> / (mean ||g_1||^2 + epsilon). Not a cosine, which does not vanish with g_m."""
    products: list[float] = (past_MN.double() @ primary_N.double()).tolist()
    return [product / (norm + _EPSILON) for product in products]


def moved(
    weights_M: Sequence[float], gains_M: Sequence[float], rate: float, floor: float
) -> tuple[float, ...]:
    """weight_m exp(rate * h_m), scaled to sum 1, none below the floor."""
    steps = [max(-_MOST, min(_MOST, rate * gain)) for gain in gains_M]
    raw = [weight * math.exp(step) for weight, step in zip(weights_M, steps, strict=True)]
    return floored(raw, floor)


def floored(raw_M: Sequence[float], floor: float) -> tuple[float, ...]:
    """Scaled to sum 1 with none below `floor`, or all equal where that cannot be; proportions above stay."""
    M = len(raw_M)
    if floor * M >= 1:
        return (1 / M,) * M
    low = set[int]()
    while True:
        rest = math.fsum(raw_M[m] for m in range(M) if m not in low)
        scale = (1 - floor * len(low)) / rest
        weights = tuple(floor if m in low else raw_M[m] * scale for m in range(M))
        below = {m for m in range(M) if m not in low and weights[m] < floor}
        if not below:
            return weights
        low |= below


def _parts(group: Group) -> RewardParts:
    assert group.parts is not None
    return group.parts
