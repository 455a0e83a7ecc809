"""Sign consensus (TIES merging, 2306.01708): entries move the way that most of the weight wants them to."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from hanse.federation.aggregation.base import Contribution


def sign_consensus(base: Tensor, contributions_C: Iterable[Contribution]) -> Tensor:
    """base + the weighted mean of those d_k whose sign is that of sum_k w_k c_k d_k, entry by entry."""
    start = base.double()
    sums = [torch.zeros_like(start) for _ in range(2)]
    weights = [torch.zeros_like(start) for _ in range(2)]
    for one in contributions_C:
        moved = one.values.double() - start
        for side, own in enumerate((moved.clamp(min=0), moved.clamp(max=0))):
            sums[side].add_(own, alpha=one.weight * one.scale)
            weights[side].add_(own != 0, alpha=one.weight)
    tiny = torch.finfo(torch.float64).tiny
    up, down = (total / weight.clamp(min=tiny) for total, weight in zip(sums, weights, strict=True))
    balance = sums[0] + sums[1]
    return start + torch.where(balance > 0, up, 0.0) + torch.where(balance < 0, down, 0.0)
