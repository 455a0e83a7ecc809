"""What the parties of a secure sum say, before it is bytes, and how each key is bound to its round.

Four stages (SecAgg, CCS 2017; SecAgg+, CCS 2020): keys, shares, masked vectors, unmasking.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hanse.privacy.secure.primitives import KEY, SEAL, Entropy, agreed_key, derived, public_key

SHARES = 2 * KEY
"""Bytes of what one holder gets of one owner: a share of its seed, a share of its mask key."""
SEALED = SHARES + SEAL
Kind = Literal["seed", "key"]


class ProtocolError(ValueError):
    """A message that this stage of the protocol does not allow."""


@dataclass(frozen=True)
class Keys:
    """A client's public keys of one round, 32 bytes each: others seal shares for one, and derive masks from
    the other."""

    seal: bytes
    mask: bytes


@dataclass(frozen=True)
class Secrets:
    """A client's secrets of one round: the private keys, and the seed of the mask that it adds for itself."""

    seal: bytes = field(repr=False)
    mask: bytes = field(repr=False)
    seed: bytes = field(repr=False)

    @classmethod
    def fresh(cls, entropy: Entropy) -> Secrets:
        return cls(entropy(KEY), entropy(KEY), entropy(KEY))

    @property
    def public(self) -> Keys:
        return Keys(public_key(self.seal), public_key(self.mask))


@dataclass(frozen=True)
class Offer:
    """What a client deals out: sealed shares by peer, and hashes by which the server knows true shares.

    `seed`: hash of the seed itself; `hashes`: by holder, of its shares of the seed and of the mask key.
    """

    sealed: Mapping[int, bytes]
    seed: bytes
    hashes: Mapping[int, tuple[bytes, bytes]]


@dataclass(frozen=True)
class Revealed:
    """A holder's shares, by owner: of the seeds of the living, of the mask keys of those that dropped out."""

    seeds: Mapping[int, bytes]
    keys: Mapping[int, bytes]


def context_of(round: int, base: str) -> bytes:
    """What binds a round's keys to it: a key derived in one context is another key elsewhere."""
    return hashlib.sha256(f"hanse secure sum 1\x1f{round}\x1f{base}".encode()).digest()


def seal_key(context: bytes, private: bytes, public: bytes, sender: int, receiver: int) -> bytes:
    """The key under which `sender` seals for `receiver`. Raises ValueError for a bad public key."""
    return agreed_key(private, public, context + f"seal {sender} {receiver}".encode())


def pair_mask(context: bytes, private: bytes, public: bytes, one: int, other: int) -> bytes:
    """The keystream's key that two clients share. Raises ValueError for a bad public key."""
    low, high = sorted((one, other))
    return agreed_key(private, public, context + f"mask {low} {high}".encode())


def self_mask(context: bytes, seed: bytes, owner: int) -> bytes:
    return derived(seed, context + f"self {owner}".encode())


def hash_of(context: bytes, kind: Kind, owner: int, holder: int | None, secret: bytes) -> bytes:
    """A commitment: nobody finds 32 random bytes from their hash, and nobody finds others that have it."""
    place = f"hash {kind} {owner} {holder}".encode()
    return hashlib.sha256(context + place + b"\x00" + secret).digest()
