"""What a server knows of its clients' groups, from round to round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hanse.reward_model.groups import Array, Groups, direction, discover, smoothed


@dataclass
class Tracker:
    """Signatures of K clients, and the groups that they fall into. `given`: groups that somebody knows, which
    are then not looked for; `most`: how many are looked for."""

    clients: int
    most: int
    ema: float
    warmup_rounds: int
    given: Groups | None = None
    rounds: int = 0
    signatures: dict[int, Array] = field(default_factory=dict)

    def learn(self, updates: Mapping[int, Array]) -> None:
        """Take note of a round's updates of the head."""
        self.rounds += 1
        for client, update in updates.items():
            past = self.signatures.get(client)
            self.signatures[client] = smoothed(past, direction(update), self.ema)

    def groups(self) -> Groups:
        """As far as they are known now; one during the warm-up."""
        if self.given is not None:
            return self.given
        return Groups.one(self.clients) if self.rounds < self.warmup_rounds else self.found()

    def found(self) -> Groups:
        """What the signatures alone say."""
        if self.most < 2 or not self.signatures:
            return Groups.one(self.clients)
        width = len(next(iter(self.signatures.values())))
        rows, seen = np.zeros((self.clients, width)), np.zeros(self.clients, dtype=bool)
        for client, signature in self.signatures.items():
            rows[client], seen[client] = signature, True
        return discover(rows, seen, self.most)
