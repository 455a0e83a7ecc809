"""CISPO (2506.13585, eq. 4): clip the weight of REINFORCE, so that no token loses its gradient."""

from __future__ import annotations

import torch

from hanse.grpo.objectives.base import Loss, LossInputs, bounded_ratio, masked


def cispo(x: LossInputs) -> Loss:
    """1/(sum_i |o_i|) sum_i sum_t -sg[min(w, eps_max)] A log pi; eps_max is `clipping.high` itself."""
    advantages = x.credit
    with torch.no_grad():
        ratio = bounded_ratio(x.logp_NT - x.old_logp_NT)
        weight = masked(ratio.clamp(max=x.clipping.high), x.mask_NT)
        high = ((ratio > x.clipping.high) & (advantages > 0) & x.mask_NT).sum()
        sums = {"clipped_low": torch.zeros_like(high), "clipped_high": high, "clippable": x.mask_NT.sum()}
    loss_NT = x.charged(-weight * advantages * x.logp_NT)
    return Loss(masked(loss_NT, x.mask_NT).sum() / x.totals.batch_tokens, sums)
