"""Dr. GRPO (2503.20783): a constant denominator, so that length is neither rewarded nor punished."""

from __future__ import annotations

from hanse.grpo.objectives.base import Loss, LossInputs, masked, token_loss


def dr_grpo(x: LossInputs) -> Loss:
    """1/(N L_max) sum_i sum_t -min(w A, clip(w) A). N counts every rollout, masked ones too."""
    loss_NT, sums = token_loss(x)
    return Loss(masked(loss_NT, x.mask_NT).sum() / (x.totals.slots * x.totals.max_tokens), sums)
