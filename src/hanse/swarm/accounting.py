"""What becomes of rejected completions: advantages and gradients of groups of which not all is believed.

V accepted, Z zero, M mask, D drop. Statistics over V, Z and M, with reward 0 on Z and M; gradients on V and
Z; a group with fewer than two in V is left out. (A masked completion that kept its reward of 1 would lower
everybody's advantage by itself.)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from hanse.grpo.advantages import Baseline, Scale, group_advantages


class Standing(IntEnum):
    """What a completion counts as; the larger is the harsher."""

    ACCEPTED = 0
    ZERO = 1
    MASKED = 2
    DROPPED = 3


@dataclass(frozen=True)
class Account:
    """Shapes (P, G). `advantages`: 0 where there is no gradient. `active`: what has a gradient. `counted`:
    what is in its group's statistics."""

    advantages_PG: Tensor
    active_PG: Tensor
    counted_PG: Tensor


def account(
    rewards_PG: Tensor,
    standing_PG: Tensor,
    *,
    baseline: Baseline = "mean",
    scale: Scale = "group",
    constant: bool = False,
) -> Account:
    """Advantages of groups by the standing of their members. NaN rewards (unscored) count nowhere.

    The loss divides by the active sequences, while a masked one counts in the denominator: advantages are
    multiplied by active / counted of the whole batch, which is exact for objectives that divide by
    sequences. `constant`: the objective divides by all slots as it is (Dr. GRPO).
    """
    accepted = standing_PG == Standing.ACCEPTED
    void = (standing_PG == Standing.ZERO) | (standing_PG == Standing.MASKED)
    rewards = torch.where(void, torch.zeros_like(rewards_PG), rewards_PG)
    alive = (accepted & ~rewards_PG.isnan()).sum(-1, keepdim=True) >= 2
    present = alive & (standing_PG != Standing.DROPPED) & ~rewards.isnan()
    rewards = torch.where(present, rewards, torch.nan)
    active = present & (standing_PG != Standing.MASKED)
    advantages = group_advantages(rewards, baseline=baseline, scale=scale)
    share = 1.0 if constant else active.sum() / present.sum().clamp(min=1)
    return Account(torch.where(active, advantages, 0.0) * share, active, present)
