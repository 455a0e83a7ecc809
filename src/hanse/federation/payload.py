"""Values on the way: from a flat vector to a message's payload and back, on either end."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from hanse.federation.messages import Payload
from hanse.federation.wire.dense import DTYPES, decode_dense, encode_dense
from hanse.federation.wire.frame import WireError
from hanse.federation.wire.layout import Layout
from hanse.federation.wire.patch import decode_patch, encode_patch
from hanse.federation.wire.quantised import Quantised, decode_quantised, encode_quantised

Codec = Literal["dense", "small", "fast"]


def pack(values: Tensor, base: Tensor | None, layout: Layout, codec: Codec, base_digest: str) -> Payload:
    """`values`, shape (numel,) in the layout's dtype, as they are or as a patch of a base both ends hold."""
    if codec == "dense" or base is None:
        return Payload("values", encode_dense(values, layout.dtype))
    patch = encode_patch(values, base, layout, profile=codec, base_digest=base_digest)
    return Payload("patch", patch)


def pack_quantised(update: Quantised) -> Payload:
    return Payload("quantised", encode_quantised(update))


def unpack(payload: Payload, base: Tensor | None, layout: Layout, base_digest: str | None) -> Tensor:
    """The values sent, shape (numel,) in the layout's dtype.

    Raises WireError for damaged or non-finite values, or a change of a base that is not at hand.
    """
    if payload.form == "values":
        return decode_dense(payload.data, layout.dtype, layout.numel)
    if base is None or base_digest is None:
        raise WireError("a change of a base that is not known here")
    if payload.form == "patch":
        values = decode_patch(payload.data, base, layout, base_digest=base_digest)
    else:
        values = add_quantised(base, decode_quantised(payload.data, layout.numel))
    if not bool(values.isfinite().all()):
        raise WireError("non-finite values")
    return values


def add_quantised(base: Tensor, update: Quantised) -> Tensor:
    """What a receiver makes of a quantised update: the same on both ends."""
    values = base.clone()
    values[update.positions] = (base[update.positions].float() + update.changes()).to(base.dtype)
    return values


def entries_of(values: Tensor, base: Tensor) -> int:
    """How many exchanged values differ."""
    return int((values != base).sum())


def unpack_vector(data: bytes | memoryview, size: int) -> Tensor:
    """A float32 vector of `size` values. Raises WireError."""
    return decode_dense(data, "float32", size)


def pack_vector(vector: Tensor) -> bytes:
    return encode_dense(vector, "float32")


def cast(values: Tensor, layout: Layout) -> Tensor:
    """In the exchange dtype, on the CPU."""
    return values.detach().to("cpu", DTYPES[layout.dtype], copy=True)


def is_finite(values: Tensor) -> bool:
    return bool(torch.isfinite(values).all())
