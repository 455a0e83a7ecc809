"""Numbers as a class and a few raw bits, as in HDR histograms: eight classes per power of two.

Numbers below 16 are a class each. Above, the class gives the leading four bits; the others, close to
uniform, are stored as they are, one plane of bits for each place.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hanse.federation.wire.reading import Reader

Ints = NDArray[np.int64]
_SUB = 3
_EXACT = 2 << _SUB


def class_count(bound: int) -> int:
    """How many classes the numbers below `bound` need."""
    top = max(bound - 1, 0)
    extra = max(top.bit_length() - 1 - _SUB, 0)
    return (extra << _SUB) + (top >> extra) + 1


def split(values: Ints) -> tuple[Ints, Ints]:
    """(classes, number of raw bits) of numbers in [0, 2^52), shape kept."""
    exponents = np.frexp(values.astype(np.float64))[1].astype(np.int64)
    extra = np.maximum(exponents - 1 - _SUB, 0)
    return (extra << _SUB) + (values >> extra), extra


def extra_bits(classes: Ints) -> Ints:
    """Number of raw bits that go with each class, shape kept."""
    extra: Ints = np.maximum((classes >> _SUB) - 1, 0)
    return extra


def lower_bounds(count: int) -> Ints:
    """The smallest number of each of the first `count` + 1 classes."""
    return join(np.arange(count + 1), np.zeros(count + 1, dtype=np.int64))


def join(classes: Ints, raw: Ints) -> Ints:
    """Numbers from classes and raw bits, the inverse of `split`."""
    extra = extra_bits(classes)
    return ((classes - (extra << _SUB)) << extra) + raw


def pack_planes(values: Ints, extra: Ints) -> bytes:
    """The lowest `extra` bits of each value, by place: first everyone's last bit."""
    planes, rest, count = [], values[extra > 0], extra[extra > 0]
    while len(rest):
        planes.append(np.packbits((rest & 1).astype(np.bool_)).tobytes())
        rest, count = rest[count > 1] >> 1, count[count > 1] - 1
    return b"".join(planes)


def unpack_planes(reader: Reader, extra: Ints) -> Ints:
    """The raw bits that `pack_planes` wrote, shape kept. Raises WireError where bytes are missing."""
    raw = np.zeros(len(extra), dtype=np.int64)
    place, members = 0, np.flatnonzero(extra > 0)
    while len(members):
        plane = np.frombuffer(reader.take((len(members) + 7) // 8), dtype=np.uint8)
        raw[members] |= np.unpackbits(plane, count=len(members)).astype(np.int64) << place
        place += 1
        members = members[extra[members] > place]
    return raw
