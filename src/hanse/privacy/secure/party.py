"""A client of a secure sum: each step is taken once, and no secret is told twice over."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from hanse.privacy.secure.fixed_point import Words
from hanse.privacy.secure.graph import FEWEST
from hanse.privacy.secure.masks import add_mask, add_masks, sign_of
from hanse.privacy.secure.primitives import KEY, seal, split_secret, unseal
from hanse.privacy.secure.protocol import (
    Keys,
    Offer,
    ProtocolError,
    Revealed,
    Secrets,
    hash_of,
    pair_mask,
    seal_key,
    self_mask,
)

Stage = Literal["keys", "dealt", "masked", "over"]


@dataclass(frozen=True)
class Party:
    """A client within one round; every step returns the next state. Secrets are forgotten at the end.

    `peers`: its neighbours' public keys; `threshold`: shares that give a secret away; `own`: its shares of
    its own secrets; `sealed`: those that its peers sealed for it.
    """

    me: int
    context: bytes
    secrets: Secrets
    stage: Stage = "keys"
    peers: Mapping[int, Keys] = field(default_factory=dict)
    threshold: int = 0
    own: bytes = field(default=b"", repr=False)
    sealed: Mapping[int, bytes] = field(default_factory=dict)

    def deal(self, peers: Mapping[int, Keys], threshold: int) -> tuple[Party, Offer]:
        """Share the secrets among oneself and the peers. Raises ProtocolError."""
        self._at("keys")
        if self.me in peers or len(peers) + 1 < FEWEST:
            raise ProtocolError(f"a sum over {len(peers) + 1} clients hides nothing; the fewest are {FEWEST}")
        keys = [k for one in (*peers.values(), self.secrets.public) for k in (one.seal, one.mask)]
        if len(set(keys)) < len(keys):
            raise ProtocolError("names a key twice")
        holders = sorted((self.me, *peers))
        seeds = split_secret(self.secrets.seed, threshold, len(holders))
        masks = split_secret(self.secrets.mask, threshold, len(holders))
        shares = {h: (s, m) for h, s, m in zip(holders, seeds, masks, strict=True)}
        sealed = {peer: self._seal(peer, keys, b"".join(shares[peer])) for peer, keys in peers.items()}
        hashes = {h: (self._hash("seed", h, s), self._hash("key", h, m)) for h, (s, m) in shares.items()}
        own = b"".join(shares[self.me])
        after = replace(self, stage="dealt", peers=dict(peers), threshold=threshold, own=own)
        seed = hash_of(self.context, "seed", self.me, None, self.secrets.seed)
        return after, Offer(sealed, seed, hashes)

    def mask(self, words: Words, sealed: Mapping[int, bytes]) -> Party:
        """Mask a vector in place, with the peers that dealt. Raises ProtocolError, with the vector bare."""
        self._at("dealt")
        if not sealed.keys() <= self.peers.keys():
            raise ProtocolError("names others than its peers")
        self._enough(len(sealed) + 1)
        context, secrets = self.context, self.secrets
        pairs = [
            (
                pair_mask(context, secrets.mask, self.peers[peer].mask, self.me, peer),
                sign_of(self.me, peer),
            )
            for peer in sorted(sealed)
        ]
        add_mask(words, self_mask(context, secrets.seed, self.me))
        add_masks(words, pairs)
        return replace(self, stage="masked", sealed=dict(sealed))

    def reveal(self, living: Collection[int], dropped: Collection[int]) -> tuple[Party, Revealed]:
        """Shares of the seeds of the living or of the mask keys of the dropped: of nobody both, and once.

        Together they are all that this client masked with. Shares that cannot be unsealed are left out.
        Raises ProtocolError.
        """
        self._at("masked")
        alive, gone = set(living), set(dropped)
        if alive & gone or self.me not in alive or alive | gone != {self.me, *self.sealed}:
            raise ProtocolError("asks for other clients' shares than those that it masked with")
        self._enough(len(alive))
        held = {peer: self._unsealed(peer) for peer in self.sealed} | {self.me: self.own}
        seeds = {k: held[k][:KEY] for k in sorted(alive) if held[k]}
        keys = {k: held[k][KEY:] for k in sorted(gone) if held[k]}
        forgotten = Secrets(b"", b"", b"")
        return replace(self, stage="over", secrets=forgotten, own=b"", sealed={}), Revealed(seeds, keys)

    def _at(self, stage: Stage) -> None:
        if self.stage != stage:
            raise ProtocolError(f"does not belong after the stage {self.stage!r}")

    def _enough(self, clients: int) -> None:
        least = max(FEWEST, self.threshold)
        if clients < least:
            raise ProtocolError(f"a sum over {clients} clients; the fewest are {least}")

    def _seal(self, peer: int, keys: Keys, shares: bytes) -> bytes:
        try:
            key = seal_key(self.context, self.secrets.seal, keys.seal, self.me, peer)
            pair_mask(self.context, self.secrets.mask, keys.mask, self.me, peer)
        except ValueError:
            raise ProtocolError(f"names a key of client {peer} that is none") from None
        return seal(key, shares, self._place(self.me, peer))

    def _unsealed(self, peer: int) -> bytes:
        """The shares that a peer dealt, or nothing where they are damaged."""
        key = seal_key(self.context, self.secrets.seal, self.peers[peer].seal, peer, self.me)
        try:
            shares = unseal(key, self.sealed[peer], self._place(peer, self.me))
        except ValueError:
            return b""
        return shares if len(shares) == 2 * KEY else b""

    def _hash(self, kind: Literal["seed", "key"], holder: int, share: bytes) -> bytes:
        return hash_of(self.context, kind, self.me, holder, share)

    def _place(self, sender: int, receiver: int) -> bytes:
        return self.context + f"{sender} {receiver}".encode()
