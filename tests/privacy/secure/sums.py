"""Parties and a tally without messages: whole numbers, keys from a seed."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from hanse.privacy.secure.graph import neighbours
from hanse.privacy.secure.party import Party
from hanse.privacy.secure.protocol import Secrets, context_of
from hanse.privacy.secure.tally import Tally
from hanse.randomness import generator

CONTEXT = context_of(1, "base")


def seeded(*parts: int | str):
    """Entropy for tests."""
    return generator("test", *parts).bytes


class Sum:
    """`vectors`: by client, uint32. Each stage may be done without some clients."""

    def __init__(
        self, clients: int, share: float = 2 / 3, degree: int | None = None, context=CONTEXT
    ) -> None:
        ids = list(range(clients))
        self.vectors = {k: np.arange(8, dtype=np.uint32) * (k + 1) - np.uint32(k) for k in ids}
        self.parties = {k: Party(k, context, Secrets.fresh(seeded(k))) for k in ids}
        keys = {k: party.secrets.public for k, party in self.parties.items()}
        graph = neighbours(ids, degree, 0)
        self.tally = Tally(context, keys, graph, share, np.zeros(8, np.uint32))
        self.masked: dict[int, np.ndarray] = {}

    def deal(self, without: Collection[int] = ()) -> Sum:
        for k in self.parties.keys() - set(without):
            peers = {v: self.tally.keys[v] for v in self.tally.graph[k]}
            self.parties[k], offer = self.parties[k].deal(peers, self.tally.needed[k])
            self.tally.offer(k, offer)
        return self

    def mask(self, without: Collection[int] = ()) -> Sum:
        for k, sealed in self.tally.deliveries().items():
            if k not in without:
                self.masked[k] = self.vectors[k].copy()
                self.parties[k] = self.parties[k].mask(self.masked[k], sealed)
                self.tally.add(k, self.masked[k])
        return self

    def reveal(self, without: Collection[int] = (), change=lambda k, revealed: revealed) -> Sum:
        for k, whose in self.tally.requests().items():
            if k not in without:
                self.parties[k], revealed = self.parties[k].reveal(*whose)
                self.tally.reveal(k, change(k, revealed))
        return self

    def expected(self, without: Collection[int] = ()) -> list[int]:
        living = [v for k, v in self.vectors.items() if k not in without]
        return np.sum(living, axis=0, dtype=np.uint32).tolist()
