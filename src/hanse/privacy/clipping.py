"""Clipping: no group's gradient is longer than the clip, whatever its rewards are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_SLACK = 1 - 2.0**-20
"""Scaled gradients end this much below the clip, as rounding may lengthen them."""


def clip_factors(norms_P: Tensor, clip: float) -> Tensor:
    """What to multiply gradients of the norms `norms_P` with: min(1, clip / norm), and 0 where the norm is
    not finite. Exactly 1 up to the clip. Float64, shape (P,)."""
    norms = norms_P.double()
    factors = torch.where(norms <= clip, 1.0, _SLACK * clip / norms)
    return torch.where(norms.isfinite(), factors, 0.0)


def group_norms(parts: Sequence[Tensor]) -> Tensor:
    """Norms of P vectors, whose entries lie in parts of shape (P, n_i). Float64, shape (P,)."""
    squares = [torch.linalg.vector_norm(part, dim=1, dtype=torch.float64).square() for part in parts]
    return torch.stack(squares).sum(0).sqrt()


def clipped_sum(parts: Sequence[Tensor], clip: float) -> Tensor:
    """Sum of P vectors, each scaled to a norm of `clip` at most; those that are not finite count as zero.

    `parts`: float32, shape (P, n_i). Shape (sum of n_i,).
    """
    factors = clip_factors(group_norms(parts), clip)
    if not bool(factors.all()):  # 0 times infinity is no number
        kept = factors.nonzero().squeeze(1)
        parts, factors = [part[kept] for part in parts], factors[kept]
    weights = factors.float()
    return torch.cat([weights @ part for part in parts])
