"""RLOO's loss (2402.14740): REINFORCE on whole sequences, with PPO's clip on the sequence ratio.

Its leave-one-out baseline is an advantage (`baseline = "leave_one_out"`), and its KL is taken off the
reward (`grpo.step`), so neither appears here.
"""

from __future__ import annotations

import torch

from hanse.grpo.objectives.base import (
    Loss,
    LossInputs,
    bounded_ratio,
    clip_sums,
    clipped_surrogate,
    masked,
)


def rloo(x: LossInputs) -> Loss:
    """1/N sum_i -min(r_i A_i, clip(r_i) A_i) with r_i = pi(o_i) / pi_old(o_i), a product over tokens."""
    ratio = bounded_ratio(masked(x.logp_NT - x.old_logp_NT, x.mask_NT).sum(-1))
    active = x.mask_NT.any(-1)
    with torch.no_grad():
        sums = clip_sums(ratio, x.advantages_N, active, x.clipping)
    surrogate = clipped_surrogate(ratio, x.advantages_N, x.clipping)
    if x.weight_NT is not None:
        surrogate = surrogate * torch.where(x.mask_NT, x.weight_NT, 1.0).prod(-1)
    return Loss(masked(surrogate, active).sum() / x.totals.sequences, sums)
