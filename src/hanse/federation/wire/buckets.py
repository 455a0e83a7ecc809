"""Entries grouped by their base's exponent: whether and how far a weight moves depends mostly on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hanse.federation.wire.classes import Ints
from hanse.federation.wire.layout import Bits

SMALLEST = 256
CHUNK: Final = 1 << 16
_EXPONENT = {"float32": (23, 255), "bfloat16": (7, 255), "float16": (10, 31)}
_EVERY: Final = np.arange(256, dtype=np.uint8)


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


@dataclass(frozen=True)
class Ordering:
    """Entries by bucket, and within a bucket by exponent and position. Comes from the base alone.

    Sorted chunk by chunk, which the processor's cache holds: `order`, shape (entries,), has positions within
    their chunk. Entries of an exponent in a chunk follow one another in both orders, `shifts`, shape
    (256, chunks), apart, and start at `firsts` of the bucket order.
    """

    keys: NDArray[np.uint8]
    order: NDArray[np.uint16]
    firsts: NDArray[np.int64]
    shifts: NDArray[np.int64]
    buckets: list[Bucket]

    def places(self, changed: NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """(rising places in bucket order, positions) of changed entries; `changed` has shape (entries,)."""
        found = [np.zeros(0, dtype=np.int64)]
        for start in range(0, len(self.order), CHUNK):
            part = slice(start, start + CHUNK)
            found.append(start + np.flatnonzero(changed[part].take(self.order[part])))
        sorted_at = np.concatenate(found)
        chunks = sorted_at // CHUNK
        positions = self.order[sorted_at] + chunks * CHUNK
        places = sorted_at - self.shifts[self.keys[positions], chunks]
        rising = np.argsort(places)
        return places[rising], positions[rising]

    def positions(self, places: Ints) -> Ints:
        """Positions of places in bucket order, shape kept."""
        cells = np.searchsorted(self.firsts.ravel(), places, side="right") - 1
        sorted_at = places + self.shifts.ravel()[cells]
        positions: Ints = self.order[sorted_at] + sorted_at // CHUNK * CHUNK
        return positions


def in_buckets(base: Bits, dtype: str) -> Ordering:
    """The ordering of a block's entries. Neighbouring exponents share a bucket below SMALLEST entries."""
    keys = exponents(base, dtype)
    order = np.empty(len(keys), dtype=np.uint16)
    starts = range(0, len(keys), CHUNK)
    ends = np.zeros((len(starts), 257), dtype=np.int64)
    for row, start in zip(ends, starts, strict=True):
        chunk = keys[start : start + CHUNK]
        by_key = np.argsort(chunk, kind="stable")
        row[1:] = np.searchsorted(chunk, _EVERY, side="right", sorter=by_key)
        order[start : start + CHUNK] = by_key
    counts = np.diff(ends).T
    firsts = np.cumsum(counts).reshape(counts.shape) - counts
    shifts = ends[:, :-1].T + np.array(starts, dtype=np.int64) - firsts
    return Ordering(keys, order, firsts, shifts, _merged(counts.sum(axis=1)))


def _merged(counts: Ints) -> list[Bucket]:
    buckets: list[Bucket] = []
    start, ends = 0, np.cumsum(counts)
    for exponent in np.flatnonzero(counts).tolist():
        if ends[exponent] - start >= SMALLEST or ends[exponent] == ends[-1]:
            buckets.append(Bucket(exponent, start, int(ends[exponent])))
            start = int(ends[exponent])
    return buckets
