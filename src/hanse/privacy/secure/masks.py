"""Masks: keystreams that a pair of clients adds and takes away, so that only their sum is bare (CCS 2017,
Bonawitz et al.), and one that each client adds for itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from hanse.privacy.secure.fixed_point import Words
from hanse.privacy.secure.primitives import keystream


def add_mask(words: Words, key: bytes, sign: int = 1) -> None:
    """Add the keystream of a key to a vector in place, modulo its word size; or take it away (sign -1)."""
    start = 0
    for block in keystream(key, words.nbytes):
        stream = block.view(words.dtype)
        part = words[start : start + len(stream)]
        if sign > 0:
            part += stream
        else:
            part -= stream
        start += len(stream)


def sign_of(me: int, peer: int) -> int:
    """The client with the smaller id adds the mask that a pair shares; the other takes it away."""
    return 1 if me < peer else -1


def add_masks(words: Words, keys: Iterable[tuple[bytes, int]]) -> None:
    """Several masks, each with its sign."""
    for key, sign in keys:
        add_mask(words, key, sign)
