"""How clients have behaved: lengths of the last rounds' updates, refusals, and who has to stay away.

The median length is one over rounds, so that neither few clients nor a round drawn full of liars move it.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hanse.recipe.federation import ScreeningSpec

Lengths = Mapping[str, float]
"""Norms of a client's update and of the vectors beside it, by name."""


@dataclass(frozen=True)
class Conduct:
    """What a server remembers of its clients; never changed in place.

    `lengths`: those of each of the last rounds' accepted uploads, none of them 0; `strikes`: refusals of each
    client, less the uploads accepted since; `until`: the round in which a quarantined client is back.
    """

    lengths: tuple[tuple[Lengths, ...], ...] = ()
    strikes: Mapping[int, int] = field(default_factory=dict)
    until: Mapping[int, int] = field(default_factory=dict)

    def medians(self, heard: Iterable[Lengths]) -> dict[str, float]:
        """By name over the last rounds and `heard`, lengths of 0 left out, where there are three or more."""
        found: dict[str, list[float]] = {}
        for lengths in (*heard, *(one for past in self.lengths for one in past)):
            for name, length in lengths.items():
                if length > 0:
                    found.setdefault(name, []).append(length)
        return {name: statistics.median(known) for name, known in found.items() if len(known) >= 3}

    def away(self, round: int) -> dict[int, int]:
        """Quarantined clients, and in how many rounds, this one included, they take no part."""
        return {k: until - round for k, until in sorted(self.until.items()) if until > round}

    def after(
        self, round: int, spec: ScreeningSpec, accepted: Mapping[int, Lengths], refused: Collection[int]
    ) -> Conduct:
        """Of a round that counts: `accepted` lengths by client, and who was `refused`."""
        strikes = dict(self.strikes)
        for client in accepted:
            strikes[client] = max(0, strikes.get(client, 0) - 1)
        for client in refused:
            strikes[client] = strikes.get(client, 0) + 1
        until = {k: end for k, end in self.until.items() if end > round + 1}
        most = spec.quarantine_after
        for client in sorted(refused):
            if most is not None and strikes[client] >= most:
                until[client] = round + 1 + spec.quarantine_rounds
                strikes[client] = 0
        kept = {k: n for k, n in strikes.items() if n}
        return Conduct(self._lengths_after(spec.norm_rounds, accepted), kept, until)

    def _lengths_after(self, rounds: int, accepted: Mapping[int, Lengths]) -> tuple[tuple[Lengths, ...], ...]:
        latest = tuple(
            {name: length for name, length in lengths.items() if length > 0} for lengths in accepted.values()
        )
        return (*self.lengths, latest)[-(rounds - 1) :] if rounds > 1 else ()

    def to_fields(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "lengths": [[dict(one) for one in past] for past in self.lengths],
            "strikes": list(self.strikes.items()),
            "until": list(self.until.items()),
        }

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Conduct:
        lengths = tuple(tuple(past) for past in fields.get("lengths", ()))
        return cls(lengths, dict(fields.get("strikes", ())), dict(fields.get("until", ())))


def present(clients: Sequence[int], away: Mapping[int, int], needed: int) -> tuple[list[int], list[int]]:
    """Who may take part, and who of them is back before its time since `needed` clients must be: those whose
    quarantine ends first."""
    free = [client for client in clients if client not in away]
    missing = min(needed, len(clients)) - len(free)
    if missing <= 0:
        return free, []
    back = sorted((client for client in clients if client in away), key=lambda k: (away[k], k))[:missing]
    return sorted([*free, *back]), sorted(back)


def drawn(
    clients: Sequence[int], away: Mapping[int, int], needed: int, count: int, chance: np.random.Generator
) -> tuple[list[int], dict[int, int]]:
    """`count` of the clients that are not `away`, all if fewer; and who stays away after `present`.

    Without quarantine the draw is the same whatever it was before.
    """
    free, back = present(clients, away, needed)
    staying = {k: left for k, left in away.items() if k not in back}
    if count >= len(free):
        return free, staying
    order = [clients[i] for i in chance.permutation(len(clients)).tolist() if clients[i] in free]
    return sorted(order[:count]), staying
