"""The weighted mean (FedAvg, 1602.05629), streaming: one float64 sum whatever the number of clients."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from hanse.federation.aggregation.base import Contribution


def mean(base: Tensor, contributions_C: Iterable[Contribution]) -> Tensor:
    """base + sum_k w_k c_k (v_k - base), formed as sum_k w_k v_k where all scales c_k are 1.

    So one client's values, weight 1, pass through unchanged. Float64, shape (numel,).
    """
    total = torch.zeros(base.shape, dtype=torch.float64)
    left = 0.0
    for one in contributions_C:
        total.add_(one.values.double(), alpha=one.weight * one.scale)
        left += one.weight * (1.0 - one.scale)
    return total if left == 0.0 else total.add_(base.double(), alpha=left)
