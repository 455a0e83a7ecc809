"""The messages of a secure sum: between Broadcast and the round's end

    Advert -> Invitation -> Shares -> Delivery -> Masked -> Request -> Unmask

in turn from client and server. Each is one frame; lists of clients rise, sizes follow from their length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hanse.federation.messages import HEADER_ROOM
from hanse.federation.wire.frame import Frame, WireError, count, decode_frame, encode_frame
from hanse.federation.wire.frame import field as read
from hanse.privacy.secure.primitives import KEY
from hanse.privacy.secure.protocol import SEALED, Keys, Offer, Revealed

MAX_CLIENTS = 1 << 12
"""Clients that one message may name."""
ROOM = HEADER_ROOM + MAX_CLIENTS * (SEALED + 2 * KEY)
"""Bytes of the largest message that carries no vector."""
MAX_REASON = 200
"""Characters of a refusal."""
QUESTIONS = ("secure-invitation", "secure-delivery", "secure-request")
"""What a server asks after the broadcast, in order."""


@dataclass(frozen=True)
class Advert:
    """A client has trained: its report, as bytes, and its public keys of this round. `seeded`: they are not
    from the operating system's randomness, so nothing is hidden."""

    report: bytes | memoryview
    keys: Keys
    seeded: bool = False

    def to_bytes(self) -> bytes:
        buffers = [self.report, self.keys.seal, self.keys.mask]
        return encode_frame("secure-advert", {"seeded": self.seeded}, buffers)

    @classmethod
    def from_bytes(cls, data: bytes) -> Advert:
        """Raises WireError."""
        frame = decode_frame(data, kind="secure-advert", max_bytes=2 * HEADER_ROOM)
        report, seal, mask = _buffers(frame, None, KEY, KEY)
        return cls(report, Keys(bytes(seal), bytes(mask)), read(frame, "seeded", bool))


@dataclass(frozen=True)
class Invitation:
    """What a client's update counts, the range of its entries, and its neighbours' keys."""

    round: int
    client: int
    weight: float
    reach: float
    addends: int
    peers: Mapping[int, Keys]

    def to_bytes(self) -> bytes:
        fields = {"round": self.round, "client": self.client, "peers": sorted(self.peers)}
        numbers = {"weight": self.weight, "reach": self.reach, "addends": self.addends}
        keys = b"".join(self.peers[k].seal + self.peers[k].mask for k in sorted(self.peers))
        return encode_frame("secure-invitation", {**fields, **numbers}, [keys])

    @classmethod
    def from_bytes(cls, data: bytes) -> Invitation:
        """Raises WireError."""
        frame = decode_frame(data, kind="secure-invitation", max_bytes=ROOM)
        peers = _clients(frame, "peers")
        keys = _split(_buffers(frame, len(peers) * 2 * KEY)[0], len(peers))
        return cls(
            count(frame, "round"),
            count(frame, "client"),
            weight=_share(frame, "weight"),
            reach=_number(frame, "reach"),
            addends=count(frame, "addends"),
            peers={k: Keys(one[:KEY], one[KEY:]) for k, one in zip(peers, keys, strict=True)},
        )


@dataclass(frozen=True)
class Shares:
    """What a client deals to its peers, through the server, which cannot open it."""

    round: int
    client: int
    offer: Offer

    def to_bytes(self) -> bytes:
        peers, holders = sorted(self.offer.sealed), sorted(self.offer.hashes)
        fields = {"round": self.round, "client": self.client, "peers": peers, "holders": holders}
        hashes = b"".join(b"".join(self.offer.hashes[h]) for h in holders)
        sealed = b"".join(self.offer.sealed[k] for k in peers)
        return encode_frame("secure-shares", fields, [sealed, self.offer.seed, hashes])

    @classmethod
    def from_bytes(cls, data: bytes) -> Shares:
        """Raises WireError."""
        frame = decode_frame(data, kind="secure-shares", max_bytes=ROOM)
        peers, holders = _clients(frame, "peers"), _clients(frame, "holders")
        sealed, seed, hashes = _buffers(frame, len(peers) * SEALED, KEY, len(holders) * 2 * KEY)
        pairs = [(one[:KEY], one[KEY:]) for one in _split(hashes, len(holders))]
        offer = Offer(
            dict(zip(peers, _split(sealed, len(peers)), strict=True)),
            bytes(seed),
            dict(zip(holders, pairs, strict=True)),
        )
        return cls(count(frame, "round"), count(frame, "client"), offer)


@dataclass(frozen=True)
class Delivery:
    """What a client's peers dealt to it: with these it shares masks."""

    round: int
    client: int
    sealed: Mapping[int, bytes]

    def to_bytes(self) -> bytes:
        peers = sorted(self.sealed)
        fields = {"round": self.round, "client": self.client, "peers": peers}
        return encode_frame("secure-delivery", fields, [b"".join(self.sealed[k] for k in peers)])

    @classmethod
    def from_bytes(cls, data: bytes) -> Delivery:
        """Raises WireError."""
        frame = decode_frame(data, kind="secure-delivery", max_bytes=ROOM)
        peers = _clients(frame, "peers")
        sealed = _split(_buffers(frame, len(peers) * SEALED)[0], len(peers))
        return cls(count(frame, "round"), count(frame, "client"), dict(zip(peers, sealed, strict=True)))


@dataclass(frozen=True)
class Masked:
    """A client's weighted update in fixed point, masked: raw words."""

    round: int
    client: int
    words: bytes | memoryview

    def to_bytes(self) -> bytes:
        return encode_frame("secure-masked", {"round": self.round, "client": self.client}, [self.words])

    @classmethod
    def from_bytes(cls, data: bytes, *, size: int) -> Masked:
        """`size`: bytes of the vector. Raises WireError."""
        frame = decode_frame(data, kind="secure-masked", max_bytes=size + HEADER_ROOM)
        return cls(count(frame, "round"), count(frame, "client"), _buffers(frame, size)[0])


@dataclass(frozen=True)
class Request:
    """Whose seeds (of the living) and whose mask keys (of the dropped) the server asks a client for."""

    round: int
    client: int
    living: Sequence[int]
    dropped: Sequence[int]

    def to_bytes(self) -> bytes:
        fields = {"round": self.round, "client": self.client}
        return encode_frame("secure-request", {**fields, "living": self.living, "dropped": self.dropped})

    @classmethod
    def from_bytes(cls, data: bytes) -> Request:
        """Raises WireError."""
        frame = decode_frame(data, kind="secure-request", max_bytes=ROOM)
        lists = (_clients(frame, "living"), _clients(frame, "dropped"))
        return cls(count(frame, "round"), count(frame, "client"), *lists)


@dataclass(frozen=True)
class Unmask:
    """The shares that one client was asked for."""

    round: int
    client: int
    revealed: Revealed

    def to_bytes(self) -> bytes:
        seeds, keys = self.revealed.seeds, self.revealed.keys
        fields = {"round": self.round, "client": self.client, "seeds": sorted(seeds), "keys": sorted(keys)}
        buffers = [b"".join(shares[k] for k in sorted(shares)) for shares in (seeds, keys)]
        return encode_frame("secure-unmask", fields, buffers)

    @classmethod
    def from_bytes(cls, data: bytes) -> Unmask:
        """Raises WireError."""
        frame = decode_frame(data, kind="secure-unmask", max_bytes=ROOM)
        lists = (_clients(frame, "seeds"), _clients(frame, "keys"))
        buffers = _buffers(frame, *(len(one) * KEY for one in lists))
        seeds, keys = (
            dict(zip(ids, _split(buffer, len(ids)), strict=True))
            for ids, buffer in zip(lists, buffers, strict=True)
        )
        return cls(count(frame, "round"), count(frame, "client"), Revealed(seeds, keys))


@dataclass(frozen=True)
class Refusal:
    """A client does not answer what it was asked, and says why."""

    round: int
    client: int
    reason: str

    def to_bytes(self) -> bytes:
        fields = {"round": self.round, "client": self.client, "reason": self.reason[:MAX_REASON]}
        return encode_frame("secure-refusal", fields)

    @classmethod
    def from_bytes(cls, data: bytes) -> Refusal:
        """Raises WireError."""
        frame = decode_frame(data, kind="secure-refusal", max_bytes=HEADER_ROOM)
        reason = "".join(c if c.isprintable() else " " for c in read(frame, "reason", str)[:MAX_REASON])
        return cls(count(frame, "round"), count(frame, "client"), reason)


def _buffers(frame: Frame, *sizes: int | None) -> tuple[memoryview, ...]:
    """The frame's buffers, of these sizes; None: of any."""
    if len(frame.buffers) != len(sizes):
        raise WireError(f"{len(frame.buffers)} buffers; expected {len(sizes)}")
    for buffer, size in zip(frame.buffers, sizes, strict=True):
        if size is not None and len(buffer) != size:
            raise WireError(f"a buffer of {len(buffer)} bytes; expected {size}")
    return frame.buffers


def _split(buffer: memoryview, count: int) -> list[bytes]:
    size = len(buffer) // max(1, count)
    return [bytes(buffer[i * size : (i + 1) * size]) for i in range(count)]


def _clients(frame: Frame, name: str) -> list[int]:
    """Client ids, rising."""
    ids: list[Any] = read(frame, name, list)
    if len(ids) > MAX_CLIENTS or not all(type(k) is int and 0 <= k < 2**31 for k in ids):
        raise WireError(f"field {name!r} is not a list of clients")
    if any(b <= a for a, b in pairwise(ids)):
        raise WireError(f"field {name!r} does not rise")
    return ids


def _number(frame: Frame, name: str) -> float:
    value = read(frame, name, (float, int))
    if not 0 <= value < 1e30:
        raise WireError(f"field {name!r} is out of range")
    return float(value)


def _share(frame: Frame, name: str) -> float:
    value = _number(frame, name)
    if value > 1:
        raise WireError(f"field {name!r} is above 1")
    return value
