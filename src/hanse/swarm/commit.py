"""The first phase of a round: every node says which policy it holds. Only then is the beacon known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hanse.federation.wire.frame import WireError, decode_frame, encode_frame
from hanse.federation.wire.frame import field as read
from hanse.swarm.delivery import MAX_ID

_MOST_BYTES = 1 << 12


@dataclass(frozen=True)
class Commit:
    """`policy`: the digest of the node's values."""

    round: int
    node: int
    policy: str

    def to_bytes(self) -> bytes:
        return encode_frame("commit", {"round": self.round, "node": self.node, "policy": self.policy})

    @classmethod
    def from_bytes(cls, data: bytes) -> Commit:
        """Raises WireError."""
        frame = decode_frame(data, kind="commit", max_bytes=_MOST_BYTES)
        policy = read(frame, "policy", str)
        if len(policy) > MAX_ID:
            raise WireError("a digest of that length")
        return cls(read(frame, "round", int), read(frame, "node", int), policy)


def digests(round: int, said: Mapping[int, bytes], held: str | None = None) -> dict[int, str]:
    """The digests of the nodes whose commit is in order; the others have no say in the beacon.

    `held`: what all nodes hold where they share a policy. Nothing else counts there, since who commits last
    could try digests until the beacon suits it.
    """
    found = {}
    for node, data in said.items():
        try:
            commit = Commit.from_bytes(data)
        except WireError:
            continue
        if (commit.round, commit.node) == (round, node) and held in (None, commit.policy):
            found[node] = commit.policy
    return found
