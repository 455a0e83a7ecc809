"""The server of a secure sum: adds masked vectors up, and takes off the masks of the sum alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hanse.privacy.secure.fixed_point import Words
from hanse.privacy.secure.graph import clients_needed, shares_needed
from hanse.privacy.secure.masks import add_mask, sign_of
from hanse.privacy.secure.primitives import join_secret, public_key
from hanse.privacy.secure.protocol import (
    Keys,
    Kind,
    Offer,
    ProtocolError,
    Revealed,
    hash_of,
    pair_mask,
    self_mask,
)


class RejectedSum(ProtocolError):  # noqa: N818 - a result of the round, in words
    """No sum comes out of this round."""


class Tally:
    """One round's sum. `keys`: of the clients that take part; `graph`: each one's neighbours; `share`: of a
    secret's holders that must still be there; `total`: zeros, shape (numel,), which the sum goes into."""

    def __init__(
        self,
        context: bytes,
        keys: Mapping[int, Keys],
        graph: Mapping[int, tuple[int, ...]],
        share: float,
        total: Words,
    ) -> None:
        self.context, self.keys, self.graph, self.share, self.total = context, keys, graph, share, total
        self.needed = {k: shares_needed(share, len(graph[k]) + 1) for k in graph}
        self.dealt: set[int] = set()
        self.living: set[int] = set()
        self._offers: dict[int, Offer] = {}
        self._shares: dict[tuple[Kind, int], dict[int, bytes]] = {}

    def offer(self, client: int, offer: Offer) -> None:
        """Take a client's shares in. Raises ProtocolError where they are not for its neighbours."""
        if set(offer.sealed) != set(self.graph[client]) or set(offer.hashes) != set(self._holders(client)):
            raise ProtocolError("deals to others than its neighbours")
        self._offers[client] = offer

    def deliveries(self) -> dict[int, dict[int, bytes]]:
        """What was sealed for each client that goes on. Raises RejectedSum where too few do."""
        self.dealt = self._connected(self._offers)
        self._enough(self.dealt, "dealt shares")
        return {k: {v: self._offers[v].sealed[k] for v in self._peers(k, self.dealt)} for k in self.dealt}

    def add(self, client: int, words: Words) -> None:
        """Add one masked vector, of the total's shape and dtype."""
        if client not in self.dealt or client in self.living:
            raise ProtocolError("sends a vector that nobody asked for")
        self.total += words
        self.living.add(client)

    def requests(self) -> dict[int, tuple[list[int], list[int]]]:
        """Of each living client's holdings, whose seeds and whose mask keys to ask it for.

        Raises RejectedSum where too few are left.
        """
        self._enough(self.living, "sent a vector")
        short = [k for k in sorted(self.dealt) if self._left(k) < self.needed[k]]
        if short:
            raise RejectedSum(f"too few neighbours of client {short[0]} are left to take off its mask")
        asked = {}
        for k in sorted(self.living):
            around = {k, *self._peers(k, self.dealt)}
            asked[k] = (sorted(around & self.living), sorted(around - self.living))
        return asked

    def reveal(self, holder: int, revealed: Revealed) -> list[int]:
        """Keep those shares that were asked for and are true; returns the owners of the others."""
        if holder not in self.living:
            raise ProtocolError("reveals shares that nobody asked for")
        false = []
        told: tuple[tuple[Kind, Mapping[int, bytes], Collection[int]], ...] = (
            ("seed", revealed.seeds, self.living),
            ("key", revealed.keys, self.dealt - self.living),
        )
        for kind, shares, wanted in told:
            for owner, share in shares.items():
                if (
                    owner in wanted
                    and holder in self._holders(owner)
                    and self._true(kind, owner, holder, share)
                ):
                    self._shares.setdefault((kind, owner), {})[holder] = share
                else:
                    false.append(owner)
        return false

    def unmask(self) -> Words:
        """The bare sum over the living, in `total`. Raises RejectedSum, with the total no good any more."""
        secrets = [(k, self._joined("seed" if k in self.living else "key", k)) for k in sorted(self.dealt)]
        for owner, secret in secrets:
            if owner in self.living:
                add_mask(self.total, self_mask(self.context, secret, owner), -1)
                continue
            for peer in self._peers(owner, self.living):
                key = pair_mask(self.context, secret, self.keys[peer].mask, owner, peer)
                add_mask(self.total, key, -sign_of(peer, owner))
        return self.total

    def _joined(self, kind: Kind, owner: int) -> bytes:
        shares, needed = self._shares.get((kind, owner), {}), self.needed[owner]
        if len(shares) < needed:
            raise RejectedSum(f"{len(shares)} true shares of client {owner}; {needed} are needed")
        places = {holder: place for place, holder in enumerate(self._holders(owner))}
        secret = join_secret({places[holder]: shares[holder] for holder in sorted(shares)[:needed]})
        if kind == "seed":
            true = hash_of(self.context, "seed", owner, None, secret) == self._offers[owner].seed
        else:
            true = public_key(secret) == self.keys[owner].mask
        if not true:
            raise RejectedSum(f"client {owner} dealt shares of something else")
        return secret

    def _true(self, kind: Kind, owner: int, holder: int, share: bytes) -> bool:
        of_seed, of_key = self._offers[owner].hashes[holder]
        wanted = of_seed if kind == "seed" else of_key
        return hash_of(self.context, kind, owner, holder, share) == wanted

    def _connected(self, clients: Collection[int]) -> set[int]:
        """Those with enough neighbours among themselves."""
        kept, size = set(clients), -1
        while len(kept) != size:
            size = len(kept)
            kept = {k for k in kept if len(self._peers(k, kept)) + 1 >= self.needed[k]}
        return kept

    def _enough(self, clients: Collection[int], what: str) -> None:
        least = clients_needed(self.share, len(self.graph))
        if len(clients) < least:
            raise RejectedSum(f"{len(clients)} of {len(self.graph)} clients {what}; {least} are needed")

    def _left(self, owner: int) -> int:
        return len(self.living & set(self._holders(owner)))

    def _peers(self, client: int, among: Collection[int]) -> list[int]:
        return [k for k in self.graph[client] if k in among]

    def _holders(self, owner: int) -> list[int]:
        return sorted((owner, *self.graph[owner]))
