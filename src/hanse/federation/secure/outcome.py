"""What comes of a secure sum, and what the server makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from hanse.federation.combination import Combination
from hanse.federation.messages import Payload, Report, Upload
from hanse.federation.records import RoundRecord, SecureRecord, ServerState
from hanse.federation.screening import Screened
from hanse.federation.secure.messages import Advert
from hanse.federation.weighting import Standing, State


@dataclass(frozen=True)
class Joined:
    """A client that takes part: what it reported, and its public keys."""

    report: Report
    advert: Advert


@dataclass
class Outcome:
    """`update`: the mean over the living, float64, shape (numel,), None where there is no sum; `weights`: of
    the living, sum 1, and `weighting` the state after them; `refused`: bad messages with their reasons."""

    joined: Mapping[int, Joined] = field(default_factory=dict)
    refused: list[Screened] = field(default_factory=list)
    weights: dict[int, float] = field(default_factory=dict)
    weighting: State = field(default_factory=dict)
    update: Tensor | None = None
    record: SecureRecord = field(default_factory=SecureRecord)
    bytes_up: int = 0
    bytes_down: int = 0

    def standings(self) -> list[Standing]:
        return [Standing(k, self.joined[k].report.signal, 0.0) for k in self.weights]

    def screened(self) -> list[Screened]:
        """The living, and the first reason of each that was left out."""
        left_out = {s.client: s for s in reversed(self.refused) if s.client not in self.weights}
        return sorted([*left_out.values(), *map(self._living, self.weights)], key=lambda s: s.client)

    def _living(self, client: int) -> Screened:
        report = self.joined[client].report
        payload = Payload("values", b"")
        upload = Upload(report.round, client, report.base, "float32", report.signal, payload, report.changed)
        return Screened(client, upload, entries=self.record.entries)


def settle(outcome: Outcome, combination: Combination, state: ServerState, base: Tensor) -> RoundRecord:
    """Takes the state to the round's end: a step along the mean update, or where there is none, none."""
    if outcome.update is not None:
        state.weighting = outcome.weighting
        combination.agree(state, base, base.double() + outcome.update, outcome.standings())
    for refused in outcome.refused:
        state.ledger[f"client {refused.client}: {refused.reason}"] += 1
    if outcome.record.rejected is not None:
        state.ledger[f"secure sum: {outcome.record.rejected}"] += 1
    record = RoundRecord(
        state.round,
        outcome.weights,
        outcome.screened(),
        outcome.bytes_up,
        outcome.bytes_down,
        secure=outcome.record,
    )
    state.round += 1
    return record
