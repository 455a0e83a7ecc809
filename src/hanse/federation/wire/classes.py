"""Numbers as a class and a few raw bits, as in HDR histograms: eight classes per power of two.

Numbers below 16 are a class each. Above, the class gives the leading four bits; the others, close to
uniform, are stored as they are, those of the same number together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hanse.federation.wire.reading import Reader

Ints = NDArray[np.int64]
_SUB = 3
SUB: Final = 1 << _SUB


def class_count(bound: int) -> int:
    """How many classes the numbers below `bound` need."""
    top = max(bound - 1, 0)
    extra = max(top.bit_length() - 1 - _SUB, 0)
    return (extra << _SUB) + (top >> extra) + 1


def split(values: Ints) -> tuple[Ints, Ints]:
    """(classes, number of raw bits) of numbers in [0, 2^34), shape kept."""
    exponents = np.frexp(values.astype(np.float64))[1].astype(np.int64)
    extra = np.maximum(exponents - 1 - _SUB, 0)
    return (extra << _SUB) + (values >> extra), extra


def extra_bits(classes: Ints) -> Ints:
    """Number of raw bits that go with each class, shape kept."""
    return _EXTRA[classes]


def join(classes: Ints, raw: Ints) -> Ints:
    """Numbers from classes and raw bits, the inverse of `split`."""
    lowest: Ints = _LOWEST[classes]
    return lowest + raw


def pack_raw(values: Ints, extra: Ints) -> bytes:
    """The lowest `extra` bits of each value: for each width its whole bytes, lowest first, then its bits."""
    order, widths = _by_width(extra)
    values, parts = values[order], []
    for width, part in widths:
        for place in range(0, width & -8, 8):
            parts.append((values[part] >> place).astype(np.uint8).tobytes())
        if width & 7:
            bits = np.unpackbits((values[part] >> (width & -8)).astype(np.uint8)[:, None], axis=1)
            parts.append(np.packbits(bits[:, 8 - (width & 7) :]).tobytes())
    return b"".join(parts)


def unpack_raw(reader: Reader, extra: Ints) -> Ints:
    """The raw bits that `pack_raw` wrote, shape kept. Raises WireError where bytes are missing."""
    order, widths = _by_width(extra)
    values = np.zeros(len(extra), dtype=np.int64)
    for width, part in widths:
        count, rest = part.stop - part.start, width & 7
        for place in range(0, width & -8, 8):
            values[part] |= np.frombuffer(reader.take(count), dtype=np.uint8).astype(np.int64) << place
        if rest:
            packed = np.frombuffer(reader.take((count * rest + 7) // 8), dtype=np.uint8)
            bits = np.zeros((count, 8), dtype=np.uint8)
            bits[:, 8 - rest :] = np.unpackbits(packed, count=count * rest).reshape(count, rest)
            values[part] |= np.packbits(bits).astype(np.int64) << (width & -8)
    raw = np.empty_like(values)
    raw[order] = values
    return raw


def _by_width(extra: Ints) -> tuple[NDArray[np.intp], Iterator[tuple[int, slice]]]:
    """The order of rising widths, and each width from 1 with where its values lie in that order."""
    keys = extra.astype(np.uint8)
    order = np.argsort(keys, kind="stable")
    widths = range(1, int(keys.max(initial=0)) + 1)
    ends = np.searchsorted(keys, np.arange(len(widths) + 1), side="right", sorter=order).tolist()
    return order, ((width, slice(ends[width - 1], ends[width])) for width in widths)


_CLASSES: Final = class_count(1 << 34)
_EXTRA: Final[Ints] = np.maximum((np.arange(_CLASSES + 1) >> _SUB) - 1, 0)
_LOWEST: Final[Ints] = (np.arange(_CLASSES + 1) - (_EXTRA << _SUB)) << _EXTRA
