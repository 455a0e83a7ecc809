"""A block of a patch in the "fast" coding (gaps and steps in bytes, zstd), and in the dense ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hanse.federation.wire.classes import Ints
from hanse.federation.wire.frame import WireError
from hanse.federation.wire.layout import Bits
from hanse.federation.wire.ordered import outward_steps, step_out
from hanse.federation.wire.reading import Reader, squeeze, unsqueeze, varint

_LEVEL = 1


def encode_fast(new: Bits, base: Bits, changed: NDArray[np.bool_]) -> tuple[bytes, bytes]:
    """(description, body) of a block, arguments of shape (entries,)."""
    at = np.flatnonzero(changed)
    steps = outward_steps(new[at], base[at]).astype(np.int64)
    gaps = np.diff(at, prepend=-1) - 1
    wide = 2 if len(base) > 80 * len(at) else 1
    parts = [_narrow(gaps, wide), _narrow(2 * np.abs(steps) - 2 + (steps < 0), 1)]
    packed = [(squeeze(short, _LEVEL), squeeze(rest, _LEVEL), len(rest)) for short, rest in parts]
    head = [varint(len(at)), varint(wide)]
    head += [varint(n) for short, rest, size in packed for n in (len(short), len(rest), size)]
    return b"".join(head), b"".join(piece for short, rest, _ in packed for piece in (short, rest))


def decode_fast(head: Reader, body: Reader, base: Bits) -> Bits:
    """The block that `encode_fast` described, shape (entries,). Raises WireError for anything else."""
    count, wide = head.varint(len(base)), head.varint(2)
    if wide == 0:
        raise WireError("gaps of no bytes")
    gaps = _widen(head, body, count, wide)
    codes = _widen(head, body, count, 1)
    at = np.cumsum(gaps + 1) - 1
    if count and at[-1] >= len(base):
        raise WireError("a position outside its block")
    sizes = (codes >> 1) + 1
    steps = np.where(codes & 1, -sizes, sizes).astype(f"i{base.itemsize}")
    out = base.copy()
    out[at] = step_out(base[at], steps)
    return out


def _narrow(values: Ints, wide: int) -> tuple[bytes, bytes]:
    """Values in `wide` bytes, byte planes apart; and, where they don't fit, the rest in 40 bits."""
    most = (1 << 8 * wide) - 1
    short = np.minimum(values, most).astype(f"<u{wide}")
    rest = (values[values >= most] - most).astype("<u8")
    return _planes(short).tobytes(), _planes(rest)[:5].tobytes()


def _planes(values: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Bytes of shape (itemsize, entries)."""
    return np.ascontiguousarray(values.view(np.uint8).reshape(-1, values.itemsize).T)


def _unplane(data: memoryview, itemsize: int, kind: str) -> NDArray[np.int64]:
    planes = np.frombuffer(data, dtype=np.uint8).reshape(itemsize, -1)
    whole = np.zeros((planes.shape[1], np.dtype(kind).itemsize), dtype=np.uint8)
    whole[:, :itemsize] = planes.T
    return whole.view(kind)[:, 0].astype(np.int64)


def _widen(head: Reader, body: Reader, count: int, wide: int) -> Ints:
    lengths = [head.varint(1 << 31) for _ in range(2)]
    size = head.varint(5 * count)
    values = _unplane(unsqueeze(body.take(lengths[0]), count * wide), wide, f"<u{wide}")
    rest = unsqueeze(body.take(lengths[1]), size)
    large = np.flatnonzero(values == (1 << 8 * wide) - 1)
    if size != 5 * len(large):
        raise WireError("another number of large values than there are places for")
    values[large] += _unplane(rest, 5, "<u8")
    return values


def encode_planes(new: Bits) -> tuple[bytes, bytes]:
    """(description, body) of all bit patterns of a block by byte planes, compressed."""
    body = squeeze(_planes(new.astype(f"<u{new.itemsize}")).tobytes(), _LEVEL)
    return varint(len(body)), body


def decode_planes(head: Reader, body: Reader, base: Bits) -> Bits:
    """The block that `encode_planes` described. Raises WireError for anything else."""
    data = unsqueeze(body.take(head.varint(1 << 31)), base.nbytes)
    planes = np.frombuffer(data, dtype=np.uint8).reshape(base.itemsize, -1)
    return np.ascontiguousarray(planes.T).view(f"<u{base.itemsize}")[:, 0].astype(base.dtype)


def encode_raw(new: Bits) -> tuple[bytes, bytes]:
    """(description, body) of the bit patterns as they are, little-endian."""
    return b"", new.astype(f"<u{new.itemsize}").tobytes()


def decode_raw(body: Reader, base: Bits) -> Bits:
    """The block that `encode_raw` described. Raises WireError for anything else."""
    return np.frombuffer(body.take(base.nbytes), dtype=f"<u{base.itemsize}").astype(base.dtype)
