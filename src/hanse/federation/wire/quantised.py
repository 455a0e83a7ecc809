"""Lossy updates: positions, and changes quantised block by block to 2, 4 or 8 bits.

A block of 256 changes has one float32 scale, its largest magnitude; values are evenly spaced levels from
-scale to scale, without a zero, as an entry that is sent has changed.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hanse.federation.wire.frame import WireError

BLOCK = 256
_HEAD = struct.Struct("<BQQ")
_ESCAPE = 0xFFFF


@dataclass(frozen=True)
class Quantised:
    """`positions` ascending int64, shape (n,); `codes` uint8 below 2**bits, shape (n,); `scales` float32, one
    a block."""

    positions: Tensor
    codes: Tensor
    scales: Tensor
    bits: int

    def changes(self) -> Tensor:
        """float32 changes, shape (n,)."""
        top = (1 << self.bits) - 1
        scale = self.scales.repeat_interleave(BLOCK)[: len(self.codes)]
        return (2.0 * self.codes.float() / top - 1.0) * scale


def quantise(changes: Tensor, positions: Tensor, bits: int) -> Quantised:
    """The nearest levels of float32 `changes` at ascending `positions`, both of shape (n,)."""
    n = len(changes)
    padded = torch.nn.functional.pad(changes.float(), (0, -n % BLOCK)).view(-(-n // BLOCK), BLOCK)
    scales = padded.abs().amax(1)
    share = padded / scales.clamp(min=torch.finfo(torch.float32).tiny).unsqueeze(1)
    codes = ((share + 1) / 2 * ((1 << bits) - 1)).round().to(torch.uint8).flatten()[:n]
    return Quantised(positions, codes, scales, bits)


def encode_quantised(update: Quantised) -> bytes:
    """Head (bits, n, length of gaps), zlib of the gaps between positions, packed codes, scales."""
    gaps = _pack_gaps(update.positions.numpy())
    head = _HEAD.pack(update.bits, len(update.codes), len(gaps))
    return b"".join([head, gaps, _pack_codes(update), update.scales.numpy().astype("<f4").tobytes()])


def decode_quantised(data: bytes | memoryview, numel: int) -> Quantised:
    """Raises WireError for anything but one whole update of at most `numel` entries."""
    if len(data) < _HEAD.size:
        raise WireError(f"{len(data)} bytes of a quantised update")
    bits, n, length = _HEAD.unpack_from(data)
    blocks, width = -(-n // BLOCK), -(-n * bits // 8)
    if bits not in (2, 4, 8) or n > numel or len(data) != _HEAD.size + length + width + 4 * blocks:
        raise WireError("a quantised update whose parts do not add up")
    start = _HEAD.size + length
    positions = _unpack_gaps(bytes(data[_HEAD.size : start]), n, numel)
    per_byte = 8 // bits
    packed = np.frombuffer(data[start : start + width], np.uint8)
    shifts = np.arange(per_byte, dtype=np.uint8) * bits
    codes = ((packed[:, None] >> shifts) & ((1 << bits) - 1)).astype(np.uint8).reshape(-1)[:n]
    scales = np.frombuffer(data[start + width :], "<f4").astype(np.float32)
    if not np.isfinite(scales).all() or (scales < 0).any():
        raise WireError("a quantised update with impossible scales")
    return Quantised(
        torch.from_numpy(positions), torch.from_numpy(codes.copy()), torch.from_numpy(scales.copy()), bits
    )


def _pack_codes(update: Quantised) -> bytes:
    per_byte = 8 // update.bits
    codes = update.codes.numpy()
    rows = np.pad(codes, (0, -len(codes) % per_byte)).reshape(-1, per_byte)
    shifts = np.arange(per_byte, dtype=np.uint8) * update.bits
    return bytes((rows << shifts).sum(1, dtype=np.uint8))


def _pack_gaps(positions: NDArray[np.int64]) -> bytes:
    """uint16 gaps, 65535 standing for that many places and no entry yet; low and high bytes apart, zlib."""
    gaps = np.diff(positions, prepend=-1) - 1
    escapes = gaps // _ESCAPE
    words = np.full(len(gaps) + int(escapes.sum()), _ESCAPE, dtype=np.uint16)
    words[np.arange(len(gaps)) + escapes.cumsum()] = gaps % _ESCAPE
    return zlib.compress(words.astype("<u2").view(np.uint8).reshape(-1, 2).T.tobytes(), 6)


def _unpack_gaps(data: bytes, n: int, numel: int) -> NDArray[np.int64]:
    most = 2 * (n + numel // _ESCAPE + 1)
    inflater = zlib.decompressobj()
    try:
        raw = inflater.decompress(data, most)
    except zlib.error as error:
        raise WireError("positions cannot be inflated") from error
    if len(raw) % 2 or inflater.unconsumed_tail or not inflater.eof:
        raise WireError("positions of another length")
    words = np.frombuffer(raw, np.uint8).reshape(2, -1).T.copy().view("<u2").reshape(-1).astype(np.int64)
    entries = words != _ESCAPE
    positions: NDArray[np.int64] = (words + entries).cumsum()[entries] - 1
    if len(positions) != n or (n and positions[-1] >= numel):
        raise WireError("positions outside the tensors")
    return positions
