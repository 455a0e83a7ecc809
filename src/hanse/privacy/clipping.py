"""Clipping: no group's gradient is longer than the clip, whatever its rewards are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_BLOCK = 1 << 14
"""Entries whose squares are summed in float32, in eight sums side by side or more: the norm is wrong by
2^14 / 8 / 2 roundings at the very most, 2^-14 of it, and float32 is many times faster here than float64."""
_CAUTION = 1 + 2.0**-13
"""On such norms, so that none is shorter than it should be."""
_MOST_BLOCKS = 64
_SLACK = 1 - 2.0**-13
"""Scaled gradients end this much below the clip, as rounding may lengthen them."""


def clip_factors(norms_P: Tensor, clip: float) -> Tensor:
    """What to multiply gradients of the norms `norms_P` with: min(1, clip / norm), and 0 where the norm is
    not finite. Exactly 1 up to the clip. Float64, shape (P,)."""
    norms = norms_P.double()
    factors = torch.where(norms <= clip, 1.0, _SLACK * clip / norms)
    return torch.where(norms.isfinite(), factors, 0.0)


def group_norms(parts: Sequence[Tensor]) -> Tensor:
    """Norms of P vectors, or a little more, from their parts of shape (P, n_i). Float64, shape (P,)."""
    blocks = [block for part in parts for block in part.split(_BLOCK, 1)]
    if len(blocks) <= _MOST_BLOCKS * len(parts):
        quick = _joint([torch.linalg.vector_norm(block, dim=1) for block in blocks])
        if bool(quick.isfinite().all()):
            return quick * _CAUTION
    return _joint([torch.linalg.vector_norm(part, dim=1, dtype=torch.float64) for part in parts])


def _joint(norms: Sequence[Tensor]) -> Tensor:
    joint: Tensor = torch.linalg.vector_norm(torch.stack(list(norms)).double(), dim=0)
    return joint


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
