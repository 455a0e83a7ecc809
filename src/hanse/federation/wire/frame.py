"""Frames: a small JSON header and raw buffers, versioned and checked. Nothing here executes anything.

Layout: magic (4), version (1), header length (4, big-endian), SHA-256 of header and body (32), header,
body. The header lists the buffers' lengths. Sizes are checked before anything is allocated.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAGIC = b"HNSE"
VERSION = 1
MAX_HEADER = 1 << 20
_PREFIX = struct.Struct(">4sBI32s")


class WireError(ValueError):
    """Bytes from another party that are not a valid message."""


@dataclass(frozen=True)
class Frame:
    """A decoded frame. Buffers are views into the received bytes."""

    kind: str
    fields: Mapping[str, Any]
    buffers: tuple[memoryview, ...]


def encode_frame(kind: str, fields: Mapping[str, Any], buffers: Sequence[bytes | memoryview] = ()) -> bytes:
    """Bytes of a message. Fields must be finite JSON."""
    document = {"kind": kind, "fields": dict(fields), "buffers": [len(b) for b in buffers]}
    header = json.dumps(document, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()
    digest = hashlib.sha256(header)
    for buffer in buffers:
        digest.update(buffer)
    return b"".join([_PREFIX.pack(MAGIC, VERSION, len(header), digest.digest()), header, *buffers])


def decode_frame(data: bytes, *, kind: str, max_bytes: int, max_header: int = MAX_HEADER) -> Frame:
    """The frame in `data`, of the expected `kind`.

    Raises WireError for anything that is not exactly one undamaged frame of at most `max_bytes`, of which
    the header has at most `max_header`.
    """
    if not _PREFIX.size <= len(data) <= max_bytes:
        raise WireError(f"{len(data)} bytes; expected {_PREFIX.size} to {max_bytes}")
    magic, version, length, digest = _PREFIX.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise WireError("not a message of this version")
    view = memoryview(data)
    if length > min(max_header, len(data) - _PREFIX.size):
        raise WireError(f"header of {length} bytes")
    if hashlib.sha256(view[_PREFIX.size :]).digest() != digest:
        raise WireError("checksum does not match")
    document = _header(bytes(view[_PREFIX.size : _PREFIX.size + length]))
    if document["kind"] != kind:
        raise WireError(f"a {str(document['kind'])[:40]!r} message; expected {kind!r}")
    buffers = _split(view[_PREFIX.size + length :], document["buffers"])
    return Frame(kind, document["fields"], buffers)


def kind_of(data: bytes) -> str:
    """What a message says it is, unchecked: for choosing who reads it. Raises WireError if nothing."""
    if len(data) < _PREFIX.size:
        raise WireError(f"{len(data)} bytes; expected at least {_PREFIX.size}")
    length = _PREFIX.unpack_from(data)[2]
    if length > min(MAX_HEADER, len(data) - _PREFIX.size):
        raise WireError(f"header of {length} bytes")
    return str(_header(bytes(data[_PREFIX.size : _PREFIX.size + length]))["kind"])


def _header(raw: bytes) -> dict[str, Any]:
    try:
        document = json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise WireError("header is not JSON") from error
    if not isinstance(document, dict) or set(document) != {"kind", "fields", "buffers"}:
        raise WireError("header has other keys than kind, fields, buffers")
    if not isinstance(document["fields"], dict) or not isinstance(document["buffers"], list):
        raise WireError("header has fields of the wrong type")
    return document


def _refuse_constant(name: str) -> None:
    raise ValueError(f"non-finite number {name}")


def _split(body: memoryview, lengths: list[Any]) -> tuple[memoryview, ...]:
    if not all(type(n) is int and n >= 0 for n in lengths) or sum(lengths) != len(body):
        raise WireError("buffer lengths do not add up to the body")
    buffers, start = [], 0
    for n in lengths:
        buffers.append(body[start : start + n])
        start += n
    return tuple(buffers)


MAX_COUNT = 2**40
"""No honest message counts so far."""


def count_of(value: int) -> int:
    """The value, where it is a count. Raises WireError."""
    if not 0 <= value < MAX_COUNT:
        raise WireError("a count is out of range")
    return value


def count(frame: Frame, name: str) -> int:
    """A header field that is a count. Raises WireError."""
    return count_of(field(frame, name, int))


def field(frame: Frame, name: str, types: type | tuple[type, ...]) -> Any:
    """A header field of the given type. Raises WireError where it is absent or of another type."""
    value = frame.fields.get(name)
    allowed = types if isinstance(types, tuple) else (types,)
    if type(value) not in allowed:
        raise WireError(f"field {name!r} is missing or has the wrong type")
    return value
