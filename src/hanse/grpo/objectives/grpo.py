"""GRPO (2402.03300, eq. 3): the mean over rollouts of the mean over each one's tokens."""

from __future__ import annotations

from hanse.grpo.objectives.base import Loss, LossInputs, per_sequence, token_loss


def grpo(x: LossInputs) -> Loss:
    """1/N sum_i 1/|o_i| sum_t -min(w A, clip(w) A)."""
    loss_NT, sums = token_loss(x)
    return Loss(per_sequence(loss_NT, x.mask_NT).sum() / x.totals.sequences, sums)
