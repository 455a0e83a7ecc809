"""The token mean of one update: like DAPO's, but normalised within each mini-batch (TRL's `bnpo`)."""

from __future__ import annotations

from hanse.grpo.objectives.base import Loss, LossInputs, masked, token_loss


def bnpo(x: LossInputs) -> Loss:
    """1/(sum_i |o_i|) sum_i sum_t -min(w A, clip(w) A); the sum in the denominator spans one update."""
    loss_NT, sums = token_loss(x)
    return Loss(masked(loss_NT, x.mask_NT).sum() / x.totals.tokens, sums)
