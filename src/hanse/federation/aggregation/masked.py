"""The mean over those clients that changed an entry: with sparse updates zeros are no votes."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from hanse.federation.aggregation.base import Contribution


def masked(base: Tensor, contributions_C: Iterable[Contribution]) -> Tensor:
    """base + sum_k w_k c_k d_k / sum_{k: d_k != 0} w_k, entry by entry, d_k = v_k - base."""
    start = base.double()
    total, weight = torch.zeros_like(start), torch.zeros_like(start)
    for one in contributions_C:
        moved = one.values.double() - start
        total.add_(moved, alpha=one.weight * one.scale)
        weight.add_(moved != 0, alpha=one.weight)
    return start + total / weight.clamp(min=torch.finfo(torch.float64).tiny)
