"""What both ends know about a flat vector: the tensors it is made of and its exchange dtype."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Bits = NDArray[np.unsignedinteger]

DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


@dataclass(frozen=True)
class Layout:
    """Tensors lying one after another, in name order, in a flat vector of shape (numel,).

    `dtype` is "float32", "bfloat16" or "float16". Raises ValueError for an unknown dtype, a negative
    dimension, or another number of names than shapes.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype {self.dtype!r}; expected one of {sorted(DTYPES)}")
        if len(self.names) != len(self.shapes):
            raise ValueError(f"{len(self.names)} names and {len(self.shapes)} shapes")
        if any(size < 0 for shape in self.shapes for size in shape):
            raise ValueError("a shape has a negative dimension")

    @property
    def numel(self) -> int:
        """Entries of the flat vector."""
        return sum(self.sizes())

    @property
    def itemsize(self) -> int:
        """Bytes of an entry."""
        return DTYPES[self.dtype].itemsize

    def slices(self) -> tuple[slice, ...]:
        """Where each tensor lies in the flat vector, in name order."""
        ends = accumulate(self.sizes(), initial=0)
        return tuple(slice(start, stop) for start, stop in pairwise(ends))

    def sizes(self) -> list[int]:
        """Entries of each tensor, in name order."""
        return [prod(shape) for shape in self.shapes]

    def digest(self) -> str:
        """SHA-256 (hex) over names, shapes and dtype."""
        document = [list(self.names), [list(shape) for shape in self.shapes], self.dtype]
        return hashlib.sha256(json.dumps(document, separators=(",", ":")).encode()).hexdigest()


def bits_of(values: Tensor, layout: Layout) -> Bits:
    """The bit patterns of a flat vector, shape (numel,), uint16 or uint32; shares memory on the CPU.

    Raises ValueError for another shape or dtype than the layout's.
    """
    if values.dtype != DTYPES[layout.dtype] or tuple(values.shape) != (layout.numel,):
        raise ValueError(f"{values.dtype} of shape {tuple(values.shape)} does not fit the layout")
    integer, unsigned = (torch.int16, np.uint16) if layout.itemsize == 2 else (torch.int32, np.uint32)
    return values.detach().to("cpu").contiguous().view(integer).numpy().view(unsigned)
