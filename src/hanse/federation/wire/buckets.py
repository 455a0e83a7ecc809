"""Entries grouped by their base's exponent: whether and how far a weight moves depends mostly on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hanse.federation.wire.layout import Bits

SMALLEST = 256
_EXPONENT = {"float32": (23, 255), "bfloat16": (7, 255), "float16": (10, 31)}


@dataclass(frozen=True)
class Bucket:
    """Entries `start` to `stop` of the bucket order; `label` is the largest exponent among them."""

    label: int
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


def exponents(base: Bits, dtype: str) -> NDArray[np.uint8]:
    """Biased exponents of bit patterns, shape kept."""
    shift, mask = _EXPONENT[dtype]
    return ((base >> shift) & mask).astype(np.uint8)


def in_buckets(base: Bits, dtype: str) -> tuple[NDArray[np.intp], list[Bucket]]:
    """(places in bucket order, shape (entries,); the buckets), from the base alone.

    Neighbouring exponents share a bucket until it has SMALLEST entries.
    """
    keys = exponents(base, dtype)
    order = np.argsort(keys, kind="stable")
    buckets: list[Bucket] = []
    start = 0
    ends = np.searchsorted(keys, np.arange(256, dtype=np.uint8), side="right", sorter=order)
    for exponent in np.flatnonzero(np.diff(ends, prepend=0)).tolist():
        if ends[exponent] - start >= SMALLEST or ends[exponent] == len(base):
            buckets.append(Bucket(exponent, start, int(ends[exponent])))
            start = int(ends[exponent])
    return order, buckets
