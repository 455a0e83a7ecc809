"""The median of every coordinate (1803.01498)."""

from __future__ import annotations

from torch import Tensor


def median(block: Tensor, liars: int) -> Tensor:
    """med_i d_ik: of an odd number the middle one, of an even number the mean of the two in the middle."""
    order = block.argsort(dim=0, stable=True)
    return order[(len(block) - 1) // 2 : len(block) // 2 + 1]
