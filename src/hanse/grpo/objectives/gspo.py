"""GSPO (2507.18071, eq. 5-7): one length-normalised ratio a sequence."""

from __future__ import annotations

import torch

from hanse.grpo.objectives.base import (
    Loss,
    LossInputs,
    bounded_ratio,
    clip_sums,
    clipped_surrogate,
    per_sequence,
)


def gspo(x: LossInputs) -> Loss:
    """1/N sum_i -min(s_i A_i, clip(s_i) A_i) with s_i = (pi(o_i) / pi_old(o_i))^(1/|o_i|)."""
    advantages = x.advantages_N.unsqueeze(-1)
    log_ratio_N = per_sequence(x.logp_NT - x.old_logp_NT, x.mask_NT)
    ratio = bounded_ratio(log_ratio_N).unsqueeze(-1)
    active = x.mask_NT.any(-1, keepdim=True)
    with torch.no_grad():
        sums = clip_sums(ratio, advantages, active, x.clipping)
    surrogate = clipped_surrogate(ratio, advantages, x.clipping)
    loss_NT = x.charged(surrogate.expand_as(x.logp_NT))
    return Loss(per_sequence(loss_NT, x.mask_NT).sum() / x.totals.sequences, sums)
