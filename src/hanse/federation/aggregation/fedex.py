"""FedEx-LoRA (2410.09432): factors are averaged, and what their product misses goes into the base."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from hanse.federation.aggregation.lora import Factors, LoraRule, Merged, means


def fedex(factors_C: Sequence[Factors], fresh: Callable[[], Tensor]) -> Merged:
    """base += sum_k w_k B_k A_k - B A with B = sum_k w_k B_k, A = sum_k w_k A_k.

    That is sum_k w_k (B_k - B)(A_k - A_K), of rank (K - 1) r, as the last term is zero and the w_k (B_k - B)
    sum to zero.
    """
    B, A = means(factors_C)
    *others, last = factors_C
    left = torch.cat([B[:, :0], *(one.B - B for one in others)], 1)
    right = torch.cat([A[:0], *(one.weight * (one.A - last.A) for one in others)], 0)
    return Merged(B, A, left, right)


FEDEX = LoraRule(merge=fedex, lifts=True)
