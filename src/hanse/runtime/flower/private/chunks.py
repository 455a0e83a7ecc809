"""How Flower cuts a message: arrays into chunks, each an object of its own beside those that hold them."""

from __future__ import annotations

from flwr.common.constant import FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE as CHUNK

MAX_BODY = CHUNK + (1 << 20)
"""Bytes of a request that carries a chunk."""
_FRAME_OF_OBJECTS = 16


def most_objects(max_bytes: int) -> int:
    """Objects of a message with one array of `max_bytes`: its chunks, and the records around it."""
    return _FRAME_OF_OBJECTS + -(-max_bytes // CHUNK)
