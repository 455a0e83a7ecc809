"""Random numbers that only the holder of a key can make again: AES-256-CTR, and what is made of its bytes."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

KEY = 32
"""Bytes of a key."""
_BLOCK = 1 << 15
"""Numbers that are made at once: few enough to stay in the processor's cache."""


def new_key() -> bytes:
    """From the system's own source."""
    return secrets.token_bytes(KEY)


def key_from_seed(seed: int, client: int) -> bytes:
    """A key that everybody who has the recipe can make: for tests, and no guarantee."""
    return hashlib.sha256(f"hanse privacy {seed} {client}".encode()).digest()


@dataclass(frozen=True)
class Stream:
    """Random numbers of one key and purpose. The same stream gives the same numbers each time."""

    key: bytes

    def sub(self, *parts: str | int | bytes) -> Stream:
        """A stream of its own for the purpose named by `parts`; unrelated to that of any other name."""
        digest = hashlib.blake2b(key=self.key, digest_size=KEY)
        for part in parts:
            data = part if isinstance(part, bytes) else str(part).encode()
            digest.update(f"{type(part).__name__}:{len(data)}:".encode() + data)
        return Stream(digest.digest())

    def uniform(self, count: int) -> NDArray[np.float64]:
        """Numbers strictly between 0 and 1, of 53 random bits each. Shape (count,)."""
        return np.concatenate([_uniform(block) for block in self._blocks(count)] or [np.empty(0)])

    def normal(self, count: int) -> Tensor:
        """Standard normal numbers by Box and Muller's transform, float64, shape (count,)."""
        return torch.cat([*self.normals(count), torch.empty(0, dtype=torch.float64)])

    def normals(self, count: int) -> Iterator[Tensor]:
        """The same, block by block."""
        for block in self._blocks(count + count % 2):
            yield _normal(block)[:count]
            count -= len(block)

    def seed(self) -> int:
        """63 bits of it, for a random number generator whose numbers need not be secret."""
        return int.from_bytes(self.key[:8], "big") >> 1

    def _blocks(self, count: int) -> Iterator[NDArray[np.uint64]]:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        encryptor = Cipher(algorithms.AES256(self.key), modes.CTR(bytes(16))).encryptor()
        for start in range(0, count, _BLOCK):
            size = min(_BLOCK, count - start)
            yield np.frombuffer(encryptor.update(bytes(8 * size)), np.dtype("<u8"))


def _uniform(bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    numbers = (bits >> np.uint64(11)).astype(np.float64)
    numbers += 0.5
    numbers *= 2.0**-53
    return numbers


def _normal(bits: NDArray[np.uint64]) -> Tensor:
    radius, turn = torch.from_numpy(_uniform(bits)).chunk(2)
    radius = radius.log().mul_(-2).sqrt_()
    turn = turn * (2 * math.pi)
    return torch.cat([radius * turn.cos(), radius * turn.sin()])
