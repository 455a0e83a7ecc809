"""DAPO's token-level loss (2503.14476, eq. 8): every token of the rollout batch weighs the same."""

from __future__ import annotations

from hanse.grpo.objectives.base import Loss, LossInputs, masked, token_loss


def dapo(x: LossInputs) -> Loss:
    """1/(sum_i |o_i|) sum_i sum_t -min(w A, clip(w) A); the denominator spans the rollout batch."""
    loss_NT, sums = token_loss(x)
    return Loss(masked(loss_NT, x.mask_NT).sum() / x.totals.batch_tokens, sums)
