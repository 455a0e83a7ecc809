"""The weighted mean (FedAvg, 1602.05629), streaming: one float64 sum whatever the number of clients."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from hanse.federation.aggregation.base import Contribution


def mean(base: Tensor, contributions_C: Iterable[Contribution]) -> Tensor:
    """sum_k w_k (base + c_k (v_k - base)): where all scales c_k are 1, sum_k w_k v_k.

    So one client's values, weight 1, pass through unchanged; and an entry that a client left alone stays
    exact, however large its scale. Float64, shape (numel,).
    """
    total = torch.zeros(base.shape, dtype=torch.float64)
    for one in contributions_C:
        total.add_(one.moved(base), alpha=one.weight)
    return total
