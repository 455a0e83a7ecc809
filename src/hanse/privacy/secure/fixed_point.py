"""Fixed point: float updates as whole numbers modulo a power of two, whose sums are exact.

A masked sum has no rounding of its own: all that is lost is the rounding of each addend to a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Words = NDArray[np.unsignedinteger]
BLOCK = 1 << 18
"""Entries at a time, so that no second vector of doubles lies in memory."""


@dataclass(frozen=True)
class Grid:
    """Numbers within [-reach, reach] in steps, modulo 2**modulus.

    `bits`: of one number, sign included. Raises ValueError for a reach that is not positive and finite, or
    bits that don't fit.
    """

    reach: float
    bits: int
    modulus: Literal[32, 64] = 32

    def __post_init__(self) -> None:
        if not 0 < self.reach < 1e30 or not self.step > 0:
            raise ValueError(f"a reach of {self.reach:g} is not positive and finite")
        if not 2 <= self.bits < self.modulus:
            raise ValueError(f"{self.bits} bits do not fit a modulus of 2^{self.modulus}")

    @property
    def step(self) -> float:
        """The distance of two neighbouring numbers."""
        return self.reach / self.levels

    @property
    def levels(self) -> int:
        """Steps from zero to `reach`."""
        return (1 << (self.bits - 1)) - 1

    @property
    def dtype(self) -> np.dtype[np.uint32] | np.dtype[np.uint64]:
        """Of words in memory and on the wire, little-endian."""
        return np.dtype("<u4") if self.modulus == 32 else np.dtype("<u8")

    def error(self, addends: int) -> float:
        """The most by which a sum of `addends` numbers within reach misses that of the floats."""
        return addends * self.step / 2


def modulus_for(bits: int, addends: int, weight: float = 1.0) -> Literal[32, 64]:
    """The smaller modulus in which `addends` numbers of at most `weight` times the reach cannot overflow:
    addends * (weight * levels + 1/2) < modulus / 2. Raises ValueError where none is large enough."""
    largest = addends * (weight * ((1 << (bits - 1)) - 1) + 0.5)
    if largest < 2**31:
        return 32
    if largest < 2**63:
        return 64
    raise ValueError(f"{addends} numbers of {bits} bits overflow 64 bits")


def quantise(update: Tensor, weight: float, grid: Grid) -> tuple[Words, int]:
    """weight * update in the nearest steps, shape (numel,), and how many entries were cut to the reach first,
    so that none counts more than its weight.

    Entries that are not finite count as zero, and as cut.
    """
    words: Words = np.empty(update.numel(), grid.dtype)
    cut = 0
    for start in range(0, update.numel(), BLOCK):
        moved = update[start : start + BLOCK].to(torch.float64)
        finite = moved.isfinite()
        kept = moved.where(finite, 0.0).clamp(-grid.reach, grid.reach)
        cut += int((moved != kept).sum())
        words[start : start + BLOCK] = _words(kept.mul_(weight / grid.step).round_(), grid)
    return words, cut


def total_of(words: Words, grid: Grid) -> Tensor:
    """The sum that these words stand for, float64, shape (numel,): the upper half are negative numbers."""
    signed = words.view("<i4" if grid.modulus == 32 else "<i8")
    return torch.from_numpy(signed.astype(np.float64)).mul_(grid.step)


def _words(steps: Tensor, grid: Grid) -> Words:
    """Two's complement, which is what modulo a power of two means."""
    return steps.to(torch.int64).numpy().view(np.uint64).astype(grid.dtype)
