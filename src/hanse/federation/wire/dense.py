"""Dense values: a flat vector as raw little-endian float32 or bfloat16."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from hanse.federation.wire.frame import WireError

DTYPES: dict[str, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def encode_dense(values: Tensor, dtype: str) -> bytes:
    """Raw bytes of a flat vector in the exchange dtype."""
    flat = values.detach().to("cpu", DTYPES[dtype]).contiguous()
    return flat.view(torch.uint8).numpy().tobytes()


def decode_dense(data: bytes | memoryview, dtype: str, numel: int) -> Tensor:
    """The vector in its exchange dtype, shape (numel,).

    Raises WireError for another length or non-finite values.
    """
    kind = DTYPES[dtype]
    if len(data) != numel * kind.itemsize:
        raise WireError(f"{len(data)} bytes of values; expected {numel * kind.itemsize}")
    values = torch.frombuffer(bytearray(data), dtype=kind) if numel else torch.empty(0, dtype=kind)
    if not bool(values.isfinite().all()):
        raise WireError("non-finite values")
    return values


def digest_of(values: bytes) -> str:
    """The hash by which both ends name a base."""
    return hashlib.sha256(values).hexdigest()
