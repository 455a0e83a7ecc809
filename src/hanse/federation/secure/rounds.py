"""A round in which the server learns signals and the sum of weighted updates, and no update."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from hanse.federation.aggregation import lora_rule
from hanse.federation.messages import Report
from hanse.federation.records import SecureRecord
from hanse.federation.screening import Screen, Screened
from hanse.federation.secure.entries import exchanged_entries
from hanse.federation.secure.messages import (
    Advert,
    Delivery,
    Invitation,
    Masked,
    Refusal,
    Request,
    Shares,
    Unmask,
)
from hanse.federation.secure.outcome import Joined, Outcome
from hanse.federation.weighting import Standing, State, weigh
from hanse.federation.wire.frame import WireError, kind_of
from hanse.privacy.secure.fixed_point import Grid, modulus_for, total_of
from hanse.privacy.secure.graph import FEWEST, clients_needed, neighbours
from hanse.privacy.secure.primitives import is_key
from hanse.privacy.secure.protocol import ProtocolError, context_of
from hanse.privacy.secure.tally import RejectedSum, Tally
from hanse.recipe.federation import FederationSpec

Asking = Generator[dict[int, bytes], Mapping[int, bytes], None]
Talk = Generator[dict[int, bytes], Mapping[int, bytes], Outcome]


class _Question(Protocol):
    def to_bytes(self) -> bytes: ...


class _Answer(Protocol):
    @property
    def round(self) -> int: ...

    @property
    def client(self) -> int: ...


A = TypeVar("A", bound=_Answer)
LIGHT = 0.01
"""Who has less than this share of an even weight hides nobody: its update is next to nothing of the sum."""
COARSE = 0.125
"""Rounding beyond this share of the range leaves more noise than update."""


@dataclass(frozen=True)
class Terms:
    """What a round's clients are told: `weights` by client sum to 1; `weighting` is the state after them."""

    weights: Mapping[int, float]
    weighting: State
    grid: Grid

    def check(self, living: Collection[int]) -> None:
        """Raises RejectedSum, before anything is unmasked, where the sum would show one client's update, or
        hardly anything but rounding."""
        least = LIGHT / len(self.weights)
        heavy = sum(self.weights[k] >= least for k in living)
        if heavy < FEWEST:
            raise RejectedSum(f"{heavy} living clients have any weight; {FEWEST} are needed")
        share = math.fsum(self.weights[k] for k in living)
        if self.grid.step * math.sqrt(len(living) / 12) > COARSE * self.grid.reach * share:
            raise RejectedSum(f"the living have {share:.3g} of the weight, which rounding drowns")


class SecureRound:
    """Leads a round's clients through the stages. `weighting`: the state before; `reach`: the largest change
    of an entry; `needed`: living clients that the recipe asks for."""

    def __init__(
        self, spec: FederationSpec, screen: Screen, weighting: State, seed: int, reach: float, needed: int = 0
    ) -> None:
        self.spec, self.screen, self.weighting, self.seed = spec, screen, weighting, seed
        self.reach, self.needed = reach, needed
        self.round, self.layout = screen.round, screen.layout
        self._moving = exchanged_entries(self.layout, lora_rule(spec.aggregation), self.round)
        entries = self.layout.numel if self._moving is None else int(self._moving.sum())
        self._out = Outcome(record=SecureRecord(entries=entries))

    def converse(self, clients: Sequence[int], replies: Mapping[int, bytes]) -> Talk:
        """From the answers to the broadcast on. Fails closed: no sum over enough clients, no update."""
        try:
            self._join(clients, replies)
            terms = self._terms()
            tally = self._tally(terms)
            yield from self._deal(tally, terms)
            yield from self._collect(tally, terms)
            yield from self._unmask(tally, terms)
            self._close(tally, terms)
        except RejectedSum as error:
            self._out.record = replace(self._out.record, rejected=str(error))
        return self._out

    # --- stages -------------------------------------------------------------------------------------------

    def _join(self, clients: Sequence[int], replies: Mapping[int, bytes]) -> None:
        joined: dict[int, Joined] = {}
        taken: set[bytes] = set()
        for client in clients:
            if client not in replies:
                continue
            self._out.bytes_up += len(replies[client])
            try:
                one = self._joined(replies[client], client, taken)
            except WireError as error:
                self._refuse(client, error)
                continue
            joined[client] = one
            taken |= {one.advert.keys.seal, one.advert.keys.mask}
        least = clients_needed(self.spec.secure.threshold, len(clients))
        seeded = any(one.advert.seeded for one in joined.values())
        self._out.joined, self._out.record = joined, replace(self._out.record, seeded=seeded)
        if len(joined) < least:
            raise RejectedSum(f"{len(joined)} of {len(clients)} clients reported; {least} are needed")

    def _deal(self, tally: Tally, terms: Terms) -> Asking:
        invitations = {
            k: Invitation(
                self.round,
                k,
                terms.weights[k],
                terms.grid.reach,
                len(tally.graph),
                {peer: tally.keys[peer] for peer in tally.graph[k]},
            )
            for k in tally.graph
        }
        replies = yield self._sent(invitations)
        for client, shares in self._read(invitations, replies, Shares.from_bytes):
            try:
                tally.offer(client, shares.offer)
            except ProtocolError as error:
                self._refuse(client, error)

    def _collect(self, tally: Tally, terms: Terms) -> Asking:
        deliveries = {k: Delivery(self.round, k, sealed) for k, sealed in tally.deliveries().items()}
        replies = yield self._sent(deliveries)

        def read(data: bytes) -> Masked:
            return Masked.from_bytes(data, size=tally.total.nbytes)

        for client, masked in self._read(deliveries, replies, read):
            tally.add(client, np.frombuffer(masked.words, terms.grid.dtype))

    def _unmask(self, tally: Tally, terms: Terms) -> Asking:
        if len(tally.living) < self.needed:
            raise RejectedSum(f"{len(tally.living)} clients are left; {self.needed} are needed")
        requests = {k: Request(self.round, k, *whose) for k, whose in tally.requests().items()}
        terms.check(tally.living)
        replies = yield self._sent(requests)
        for client, unmask in self._read(requests, replies, Unmask.from_bytes):
            if false := tally.reveal(client, unmask.revealed):
                self._refuse(client, f"reveals false shares of clients {', '.join(map(str, false))}")

    def _close(self, tally: Tally, terms: Terms) -> None:
        words = tally.unmask()
        living = sorted(tally.living)
        share = math.fsum(terms.weights[k] for k in living)
        mean = total_of(words, terms.grid).div_(share)
        bound = (terms.grid.reach + terms.grid.error(len(living)) / share) * (1 + 1e-9)
        if mean.numel() and (most := float(mean.abs().max())) > bound:
            raise RejectedSum(
                f"the mean has an entry of {most:.3g}, and none of the addends is above {bound:.3g}"
            )
        out = self._out
        out.update, out.weighting = self._spread(mean), terms.weighting
        out.weights = {k: terms.weights[k] / share for k in living}
        norm, step = float(mean.norm()), terms.grid.step
        out.record = replace(out.record, living=len(living), step=step, norm=norm)

    # --- parts --------------------------------------------------------------------------------------------

    def _joined(self, data: bytes, client: int, taken: set[bytes]) -> Joined:
        """Raises WireError for a report or keys that cannot be used."""
        advert = Advert.from_bytes(data)
        report: Report = self.screen.report(bytes(advert.report), client)
        keys = {advert.keys.seal, advert.keys.mask}
        if len(keys) < 2 or keys & taken or not all(map(is_key, keys)):
            raise WireError("has keys that are none, or another client's")
        return Joined(report, replace(advert, report=b""))

    def _terms(self) -> Terms:
        joined, secure = self._out.joined, self.spec.secure
        standings = [Standing(k, one.report.signal, 0.0) for k, one in joined.items()]
        weights, weighting = weigh(self.spec, self.weighting, standings)
        grid = Grid(self.reach, secure.bits, modulus_for(secure.bits, len(joined)))
        return Terms(dict(zip(joined, weights, strict=True)), weighting, grid)

    def _tally(self, terms: Terms) -> Tally:
        joined = self._out.joined
        keys = {k: one.advert.keys for k, one in joined.items()}
        graph = neighbours(list(joined), self.spec.secure.neighbours, self.seed, "secure graph", self.round)
        context = context_of(self.round, self.screen.digest)
        total = np.zeros(self._out.record.entries, terms.grid.dtype)
        return Tally(context, keys, graph, self.spec.secure.threshold, total)

    def _spread(self, mean: Tensor) -> Tensor:
        """The mean update where the sum is over some of the entries only: zero elsewhere."""
        if self._moving is None:
            return mean
        update = torch.zeros(self.layout.numel, dtype=torch.float64)
        update[self._moving] = mean
        return update

    def _sent(self, questions: Mapping[int, _Question]) -> dict[int, bytes]:
        messages = {k: question.to_bytes() for k, question in questions.items()}
        self._out.bytes_down += sum(map(len, messages.values()))
        return messages

    def _read(
        self, asked: Iterable[int], replies: Mapping[int, bytes], read: Callable[[bytes], A]
    ) -> Iterator[tuple[int, A]]:
        """The usable answers, in client order; the others are refused, or have dropped out."""
        for client in sorted(asked):
            if client not in replies:
                self._refuse(client, "dropped out of a secure sum")
                continue
            self._out.bytes_up += len(replies[client])
            try:
                answer = read(_willing(replies[client]))
                if (answer.round, answer.client) != (self.round, client):
                    raise WireError("speaks in another client's name, or of another round")
            except WireError as error:
                self._refuse(client, error)
                continue
            yield client, answer

    def _refuse(self, client: int, reason: Exception | str) -> None:
        self._out.refused.append(Screened(client, None, reason=str(reason)))


def _willing(data: bytes) -> bytes:
    """The bytes of an answer. Raises WireError, with the client's reason, where it refuses one."""
    if kind_of(data) == "secure-refusal":
        raise WireError(f"refuses: {Refusal.from_bytes(data).reason}")
    return data
