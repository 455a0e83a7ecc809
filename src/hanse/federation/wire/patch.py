"""Patches: what turns a base that both ends hold into new values, bit for bit.

A patch is a frame of kind "patch" with two buffers: descriptions of the blocks (zstd) and their bodies. A
tensor is a block, or several of at most BLOCK entries. Names, shapes and dtype do not travel: both ends know
them, and a patch names their hash instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final, Literal

import numpy as np
import torch
from torch import Tensor

from hanse.federation.wire import frame as frames
from hanse.federation.wire.blocks import decode_blocks, encode_blocks
from hanse.federation.wire.frame import Frame, WireError, decode_frame, encode_frame
from hanse.federation.wire.layout import DTYPES, Bits, Layout, bits_of
from hanse.federation.wire.reading import Reader, squeeze, unsqueeze

Profile = Literal["small", "fast", "raw"]

PROFILES: Final = ("small", "fast", "raw")
VERSION = 1
OVERHEAD = 1024


def changed(new: Tensor, base: Tensor) -> Tensor:
    """Where bit patterns differ, bool of shape (numel,); -0 differs from +0, a NaN not from itself.

    Raises ValueError for tensors of different shapes or dtypes.
    """
    if new.shape != base.shape or new.dtype != base.dtype:
        raise ValueError(f"{new.dtype} {tuple(new.shape)} against {base.dtype} {tuple(base.shape)}")
    kind = torch.int16 if new.itemsize == 2 else torch.int32
    return new.detach().contiguous().view(kind) != base.detach().contiguous().view(kind)


def digest_of_values(values: Tensor, layout: Layout) -> str:
    """SHA-256 (hex) of a flat vector's bytes, by which both ends name a base."""
    return _sha256(bits_of(values, layout))


def largest_patch(layout: Layout) -> int:
    """No patch of this layout has more bytes: its raw values and a constant."""
    return layout.numel * layout.itemsize + OVERHEAD


def encode_patch(
    new: Tensor,
    base: Tensor,
    layout: Layout,
    *,
    profile: Profile = "small",
    base_digest: str | None = None,
    new_digest: str | None = None,
) -> bytes:
    """The patch that turns `base` into `new`, both of shape (numel,) in the layout's dtype.

    Every entry whose bits differ is sent; who wants to send fewer passes a `new` that equals base there.
    `profile`: "small" has the best ratio, "fast" is simpler and quicker, "raw" is the values as they are, and
    what the others fall back to. Digests from `digest_of_values` save hashing. Raises ValueError for values
    that do not fit the layout, or an unknown profile.
    """
    if profile not in PROFILES:
        raise ValueError(f"profile {profile!r}; expected small, fast or raw")
    new_bits, base_bits = bits_of(new, layout), bits_of(base, layout)
    digests = (base_digest or _sha256(base_bits), layout.digest(), new_digest or _sha256(new_bits))
    size = new_bits.nbytes
    if profile != "raw":
        head, body = encode_blocks(new_bits, base_bits, layout, profile)
        packed = squeeze(head, 9)
        if len(packed) + len(body) < size and len(head) <= _largest_head(layout):
            return _frame(profile, digests, len(head), [packed, body])
    return _frame("raw", digests, 0, [b"", new_bits.astype(f"<u{new_bits.itemsize}").tobytes()])


def decode_patch(
    data: bytes | memoryview, base: Tensor, layout: Layout, *, base_digest: str | None = None
) -> Tensor:
    """A new tensor of shape (numel,), bit for bit what the patch was made from.

    `base` is left as it is, so that a repeated patch gives the same result. Raises WireError for another
    base or layout and for anything that is not exactly one whole patch; what was decoded is checked against
    the hash of what was encoded.
    """
    try:
        base_bits = bits_of(base, layout)
        view = memoryview(data).cast("B")
    except (ValueError, TypeError) as error:
        raise WireError(f"not a patch of this layout: {error}") from error
    frame = decode_frame(view, kind="patch", max_bytes=largest_patch(layout))  # type: ignore[arg-type]
    _check(frame, layout, base_digest or _sha256(base_bits))
    out = np.empty_like(base_bits)
    digest = hashlib.sha256()
    for part, block in _decoded(frame, base_bits, layout):
        out[part] = block
        digest.update(out[part].data)
    if digest.hexdigest() != frames.field(frame, "new", str):
        raise WireError("the values that came out are not those that went in")
    signed = out.view(np.dtype(f"i{out.itemsize}"))
    return torch.from_numpy(signed).view(DTYPES[layout.dtype])


def _check(frame: Frame, layout: Layout, base_digest: str) -> None:
    if frames.field(frame, "patch", int) != VERSION:
        raise WireError("a patch of another version")
    if frames.field(frame, "layout", str) != layout.digest():
        raise WireError("a patch of another layout")
    if frames.field(frame, "base", str) != base_digest:
        raise WireError("a patch of another base")
    if frames.field(frame, "profile", str) not in PROFILES or len(frame.buffers) != 2:
        raise WireError("a patch of another profile")


def _decoded(frame: Frame, base: Bits, layout: Layout) -> Iterator[tuple[slice, Bits]]:
    head, body = frame.buffers
    if frame.fields["profile"] == "raw":
        if len(head) or len(body) != base.nbytes:
            raise WireError(f"{len(body)} bytes of raw values; expected {base.nbytes}")
        yield (
            slice(0, len(base)),
            np.frombuffer(body, dtype=f"<u{base.itemsize}").astype(base.dtype, copy=False),
        )
        return
    size = frames.field(frame, "described", int)
    if not 0 <= size <= _largest_head(layout):
        raise WireError(f"descriptions of {size} bytes")
    yield from decode_blocks(Reader(unsqueeze(head, size)), Reader(body), base, layout)


def _sha256(bits: Bits) -> str:
    return hashlib.sha256(bits.data).hexdigest()


def _largest_head(layout: Layout) -> int:
    return layout.numel * layout.itemsize + OVERHEAD


def _frame(profile: str, digests: tuple[str, str, str], described: int, buffers: list[bytes]) -> bytes:
    fields: dict[str, Any] = {"patch": VERSION, "profile": profile, "described": described}
    fields |= zip(("base", "layout", "new"), digests, strict=True)
    return encode_frame("patch", fields, buffers)
