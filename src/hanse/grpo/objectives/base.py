"""What the objectives share: their inputs, their outputs, and the pieces that more than one needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

MAX_LOG_RATIO = 20.0
"""Log-ratios are clamped here before `exp`, so that no loss is infinite; the share clamped is reported."""

KlEstimator = Literal["k1", "k2", "k3"]


@dataclass(frozen=True)
class Totals:
    """Denominators of one optimiser update, over all of its micro-batches: that makes accumulation exact.

    `sequences`: rollouts with an active token; `tokens`: active tokens of this update; `batch_tokens`:
    active tokens of the whole rollout batch, divided by its number of updates; `slots`: all rollouts of
    the update, active or not; `max_tokens`: the generation limit.
    """

    sequences: float
    tokens: float
    batch_tokens: float
    slots: float
    max_tokens: float


@dataclass(frozen=True)
class Clipping:
    """`low`, `high`: the trust region 1 - low … 1 + high; `delta`: cap on the ratio when A < 0."""

    low: float = 0.2
    high: float = 0.2
    delta: float | None = None


@dataclass(frozen=True)
class Loss:
    """A scalar share of the update's loss, and sums (not means) for metrics, by name."""

    value: Tensor
    sums: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class LossInputs:
    """N = P*G rollouts of T tokens. `mask_NT` is True where a token is active in the loss.

    `advantages_NT`: where tokens have advantages of their own, in place of their rollout's. `penalty_NT` is
    added to the per-token loss (beta times KL); `weight_NT` multiplies the surrogate (the importance
    correction between sampler and learner).
    """

    logp_NT: Tensor
    old_logp_NT: Tensor
    advantages_N: Tensor
    mask_NT: Tensor
    totals: Totals
    clipping: Clipping
    advantages_NT: Tensor | None = None
    penalty_NT: Tensor | None = None
    weight_NT: Tensor | None = None

    @property
    def credit(self) -> Tensor:
        """Advantages against (N, T): shape (N, 1), or (N, T) where tokens have their own."""
        return self.advantages_N.unsqueeze(-1) if self.advantages_NT is None else self.advantages_NT

    def charged(self, surrogate: Tensor) -> Tensor:
        """The per-token loss: the surrogate, corrected, plus the penalty. Shape (N, T)."""
        weighted = surrogate if self.weight_NT is None else surrogate * self.weight_NT
        return weighted if self.penalty_NT is None else weighted + self.penalty_NT


Objective = Callable[[LossInputs], Loss]


def bounded_ratio(log_ratio: Tensor) -> Tensor:
    """exp of the clamped log-ratio."""
    return log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()


def clipped_surrogate(ratio: Tensor, advantages: Tensor, clipping: Clipping) -> Tensor:
    """-min(r A, clip(r) A), with r capped at `delta` first (two-sided clipping, INTELLECT-2)."""
    inside = ratio.clamp(1 - clipping.low, 1 + clipping.high)
    free = ratio if clipping.delta is None else ratio.clamp(max=clipping.delta)
    return -torch.minimum(free * advantages, inside * advantages)


def clip_sums(ratio: Tensor, advantages: Tensor, mask: Tensor, clipping: Clipping) -> dict[str, Tensor]:
    """How many active entries were clipped below (A < 0) and above (A > 0), and how many there were."""
    low = ((ratio < 1 - clipping.low) & (advantages < 0) & mask).sum()
    high = ((ratio > 1 + clipping.high) & (advantages > 0) & mask).sum()
    return {"clipped_low": low, "clipped_high": high, "clippable": mask.sum()}


def token_loss(x: LossInputs) -> tuple[Tensor, dict[str, Tensor]]:
    """The clipped surrogate with token-level ratios, charged; shape (N, T). And its clip counts."""
    advantages = x.credit
    ratio = bounded_ratio(x.logp_NT - x.old_logp_NT)
    with torch.no_grad():
        sums = clip_sums(ratio, advantages, x.mask_NT, x.clipping)
    return x.charged(clipped_surrogate(ratio, advantages, x.clipping)), sums


def masked(values_NT: Tensor, mask_NT: Tensor) -> Tensor:
    """Values where the mask is True, exact zeros elsewhere (also where the value is not finite)."""
    return torch.where(mask_NT, values_NT, 0.0)


def per_sequence(values_NT: Tensor, mask_NT: Tensor) -> Tensor:
    """Mean over each rollout's active tokens; 0 where there are none. Shape (N,)."""
    return masked(values_NT, mask_NT).sum(-1) / mask_NT.sum(-1).clamp(min=1)


def kl_divergence(logp_NT: Tensor, ref_logp_NT: Tensor, estimator: KlEstimator) -> Tensor:
    """Per-token estimates of KL(policy || reference). Shape (N, T).

    With r = log(ref / policy): k1 = -r (unbiased, high variance); k2 = r²/2; k3 = e^r - r - 1
    (unbiased and positive), the exponent clamped.
    """
    r = (ref_logp_NT - logp_NT).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    if estimator == "k1":
        return -r
    if estimator == "k2":
        return r.square() / 2
    return r.exp() - r - 1
