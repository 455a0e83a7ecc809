"""Frames between scorer and worker: four bytes of length, then JSON. Nothing is ever unpickled."""

from __future__ import annotations

import json
import os
import select
import struct
import time
from typing import Any

MAX_REQUEST = 1 << 28
MAX_REPLY = 1 << 20
"""Longest frames, in bytes, that a worker and a scorer accept."""

_HEADER = struct.Struct(">I")
_CHUNK = 1 << 16


class FrameError(Exception):
    """A frame that is too long, or not JSON."""


def encode(message: object) -> bytes:
    """One frame. Values that JSON lacks (dates, bytes, …) travel as text."""
    body = json.dumps(message, default=str, skipkeys=True, separators=(",", ":")).encode()
    return _HEADER.pack(len(body)) + body


def decode(body: bytes) -> Any:
    """Raises FrameError for anything but JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"not JSON: {type(error).__name__}") from error


def write(fd: int, frame: bytes, deadline: float | None = None) -> None:
    """Write all of `frame`; a `deadline` (time.monotonic) needs a non-blocking descriptor.

    Raises TimeoutError at the deadline and BrokenPipeError if nobody reads.
    """
    left = memoryview(frame)
    while left:
        _await(fd, select.POLLOUT, deadline)
        try:
            left = left[os.write(fd, left[:_CHUNK]) :]
        except BlockingIOError:
            continue


def read(fd: int, limit: int, deadline: float | None = None) -> Any:
    """The next message. A length beyond `limit` is refused before anything is allocated for it.

    Raises EOFError when the other side is gone, TimeoutError at the deadline, FrameError for bad frames.
    """
    (length,) = _HEADER.unpack(_read_exactly(fd, _HEADER.size, deadline))
    if length > limit:
        raise FrameError(f"{length} bytes announced, {limit} allowed")
    return decode(_read_exactly(fd, length, deadline))


def _read_exactly(fd: int, size: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < size:
        _await(fd, select.POLLIN, deadline)
        try:
            part = os.read(fd, min(_CHUNK, size - len(data)))
        except BlockingIOError:
            continue
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def _await(fd: int, event: int, deadline: float | None) -> None:
    if deadline is None:
        return
    poll = select.poll()
    poll.register(fd, event)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise TimeoutError
