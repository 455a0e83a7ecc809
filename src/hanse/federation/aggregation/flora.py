"""FLoRA (2409.05976): the clients' pairs, stacked, go into the base; adapters start anew. Exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from hanse.federation.aggregation.lora import Factors, LoraRule, Merged, stacked


def flora(factors_C: Sequence[Factors], fresh: Callable[[], Tensor]) -> Merged:
    """base += [B_1 .. B_K] [w_1 A_1; ..; w_K A_K] = sum_k w_k B_k A_k; then B = 0 and A is drawn again."""
    left, right = stacked(factors_C)
    return Merged(torch.zeros_like(factors_C[0].B), fresh(), left, right)


FLORA = LoraRule(merge=flora, renews=True, lifts=True)
