"""The weighted mean (FedAvg, 1602.05629), streaming: one float64 sum whatever the number of clients."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def weighted_mean(master: Tensor, broadcast: Tensor, uploads_C: Iterable[tuple[float, Tensor]]) -> Tensor:
    """master + sum_k w_k (v_k - broadcast), formed as (master - broadcast) + sum_k w_k v_k.

    `master` is float32, shape (numel,); `broadcast` is what was sent of it; values v_k arrive in client-id
    order with weights that sum to 1. All sums run in float64 and are rounded once, so with a float32
    exchange the result is exactly the rounded sum_k w_k v_k, and one client's values pass through unchanged.
    """
    total = master.double() - broadcast.double()
    for weight, values in uploads_C:
        total.add_(values.double(), alpha=weight)
    return total.to(torch.float32)
