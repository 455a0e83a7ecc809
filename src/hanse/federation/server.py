"""The server of a federation: one round, transport-free."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from hanse.federation.aggregation import lora_rule, pairs_of, resting_entries
from hanse.federation.audit import Evidence
from hanse.federation.auditor import Auditor
from hanse.federation.budget import lagged, shared
from hanse.federation.combination import Combination, Gathered
from hanse.federation.conduct import drawn
from hanse.federation.diagnostics import MOST_VALUES, cosines
from hanse.federation.lateness import Latecomers
from hanse.federation.local import LOCAL_METHODS
from hanse.federation.mailing import Mailing
from hanse.federation.messages import Grant, is_resync
from hanse.federation.offset import Offset
from hanse.federation.opened import Opened
from hanse.federation.payload import cast
from hanse.federation.records import RoundRecord, ServerState
from hanse.federation.robust.combining import Root
from hanse.federation.rollouts import allotted
from hanse.federation.screening import Screen, Screened, gate_norms
from hanse.federation.sending import codec_in_force
from hanse.federation.wire.dense import DTYPES
from hanse.federation.wire.frame import WireError
from hanse.federation.wire.layout import Layout
from hanse.federation.wire.patch import digest_of_values
from hanse.randomness import generator
from hanse.recipe.federation import FederationSpec

Conversation = Generator[dict[int, bytes], Mapping[int, bytes], RoundRecord]
"""Yields messages by client id and is sent the answers that came; returns what the round did."""


class Server:
    """Opens rounds and closes them; holds float32 master values whatever dtype is exchanged.

    `converse` is a round: `open_round`, `resend` for clients that ask for whole values, with a budget
    `grant`, and `close_round`. `seed` draws clients; `group_size`, `most_updates` bound
    honest signals, `scaling` is what LoRA's B A are multiplied by; `prompts`: of a client's step. `needed`:
    usable uploads that close a round; `spare`: clients drawn beyond the recipe's share; `late`: of late
    uploads, None: they count nothing. `root`: of FLTrust; `still`: see `screening.Screen`.
    """

    def __init__(
        self,
        spec: FederationSpec,
        layout: Layout,
        clients: Sequence[int],
        state: ServerState,
        *,
        seed: int = 0,
        group_size: int = 2,
        most_updates: int | None = None,
        scaling: float = 1.0,
        prompts: int = 1,
        needed: int = 0,
        spare: int = 0,
        still: bool = False,
        root: Root | None = None,
        auditor: Auditor | None = None,
        late: Latecomers | None = None,
    ) -> None:
        self.spec, self.layout, self.clients, self.state = spec, layout, sorted(clients), state
        self.seed, self.group_size, self.most_updates, self.prompts = seed, group_size, most_updates, prompts
        self.needed, self.spare, self.still = needed, spare, still
        self.auditor, self.late = auditor, late or Latecomers(0.0, 0)
        self.codec = codec_in_force(spec, layout.dtype)
        self._method, self._rule = LOCAL_METHODS[spec.local], lora_rule(spec.aggregation)
        self._combination = Combination(spec, layout, len(self.clients), seed, scaling, root)
        if self._rule.lifts and state.offset is None:
            state.offset = Offset.zeros(pairs_of(layout))
        self._sizes = layout.sizes()
        receives = tuple(self._method.receives(self._sizes))
        self._mailing = Mailing(spec, layout, self.codec, self.reporting, receives)
        self._open: Opened | None = None

    @property
    def least(self) -> int:
        """Usable uploads that close a round whatever was refused."""
        return max(self.needed, self.spec.needed)

    @property
    def reporting(self) -> bool:
        """Whether clients report before they upload."""
        budget = self.spec.budget
        return budget.fraction is not None and budget.share != "own" and budget.grant == "report"

    @property
    def ground(self) -> tuple[int, Tensor, str]:
        """The open round, the values that its clients start from, shape (numel,), and their hash."""
        opened = self._opened()
        return opened.screen.round, opened.base, opened.digest

    def converse(self) -> Conversation:
        """One round, as messages that go out and the replies that come back."""
        replies = yield from self._begun()
        grants = self.grant(replies)
        return self.close_round((yield grants) if grants else replies)

    def _begun(self) -> Generator[dict[int, bytes], Mapping[int, bytes], dict[int, bytes]]:
        """The round is open, and everybody who answered has its values: their replies."""
        replies = dict((yield self.open_round()))
        if again := self.resend(replies):
            replies |= yield again
        return replies

    def open_round(self) -> dict[int, bytes]:
        """What each client that takes part receives now. Opening a round twice gives the same messages."""
        base = cast(self.state.master, self.layout)
        digest = digest_of_values(base, self.layout)
        wanted, away = self.spec.wanted(len(self.clients)), self.state.conduct.away(self.state.round)
        chance = generator(self.seed, "participation", self.state.round)
        clients, away = drawn(self.clients, away, max(1, self.needed), wanted + self.spare, chance)
        keep = len(clients) * base.numel() <= MOST_VALUES
        sends = self._method.sends(self._sizes)
        screen = Screen(
            self.spec.screening_in_force,
            self.layout,
            self.state.round,
            digest,
            base,
            sends,
            self.group_size,
            keep,
            resting_entries(self.layout, self._rule.shares(self.state.round)),
            self.most_updates,
            self._method.squares,
            self.still,
        )
        granted = lagged(self.spec.budget, self.state.reported, clients)
        prompts = allotted(self.spec.rollouts, clients, self.state.informative, self.prompts)
        opened = self._open = Opened(digest, base, clients, screen, granted, prompts, away)
        lossless = self.codec != "dense"
        held = {k: self.state.downlink.known_to(k) if lossless else None for k in clients}
        return self._send(self._mailing.broadcasts(self.state, opened, held))

    def resend(self, replies: Mapping[int, bytes]) -> dict[int, bytes]:
        """Whole values for clients that did not hold the base of the patch that they received."""
        opened = self._opened()
        asking = []
        for client in opened.clients:
            if client in replies and is_resync(replies[client], client, self.state.round):
                asking.append(client)
                opened.bytes_up += len(replies[client])
                self.state.ledger[f"client {client}: asked for whole values"] += 1
        held = dict.fromkeys(asking)
        return self._send(self._mailing.broadcasts(self.state, opened, held, whole=True))

    def grant(self, replies: Mapping[int, bytes]) -> dict[int, bytes]:
        """Share the round's budget among the clients that reported; nothing where nobody has to report."""
        if not self.reporting:
            return {}
        opened = self._opened()
        for client in opened.clients:
            if client not in replies:
                continue
            opened.bytes_up += len(replies[client])
            try:
                opened.reports[client] = opened.screen.report(replies[client], client)
            except WireError as error:
                opened.refused.append(Screened(client, None, reason=str(error)))
        reported = {k: (r.changed, r.signal.reward_std) for k, r in opened.reports.items()}
        opened.granted = shared(self.spec.budget, reported)
        grants = {k: Grant(self.state.round, k, n).to_bytes() for k, n in opened.granted.items()}
        return self._send(grants)

    def close_round(self, uploads: Mapping[int, bytes]) -> RoundRecord:
        """Screen, weigh, combine. With fewer than `needed` usable uploads nothing changes but the ledger: the
        record has no weights, and the same round may be opened again.

        `uploads` maps client id to the bytes received; their order does not matter. They are read one at a
        time, so where they lie on disk memory does not grow with their number.
        """
        opened = self._opened()
        uploads = self.late.joined(opened, uploads)
        heard = [*opened.refused, *self._screened(opened, uploads)]
        screened = gate_norms(heard, opened.screen.spec, self.state.conduct)
        screened, evidence = self._audited(opened, screened, uploads)
        screened.sort(key=lambda s: s.client)
        good = [s for s in screened if s.upload is not None]
        usable = sum(not s.staleness for s in good)
        refused = len(screened) - len(good) + len(opened.away)
        met = self._combination.suffices(self.state.ledger, usable, refused) and usable >= self.needed
        weights, residual = self._combined(opened, good, uploads, refused) if usable and met else ({}, None)
        for one in (s for s in screened if s.reason is not None):
            self.state.ledger[f"client {one.client}: {one.reason}"] += 1
        if met:
            self.state.evidence = evidence
            self._advance(opened, good, screened, uploads)
        self._open = None
        return RoundRecord(
            opened.screen.round,
            weights,
            [replace(s, values=None) for s in screened],
            opened.bytes_up,
            opened.bytes_down,
            opened.granted,
            cosines(opened.base, {s.client: s.values for s in good if s.values is not None}),
            residual,
            away=opened.away,
        )

    def values(self) -> Tensor:
        """What clients will compute with, float32: of weight averaging the mean; then the base's offset."""
        master = self.state.optimizer.get("average", self.state.master)
        values = master.to(DTYPES[self.layout.dtype]).to(torch.float32)
        return values if self.state.offset is None else torch.cat([values, self.state.offset.total])

    def _send(self, messages: dict[int, bytes]) -> dict[int, bytes]:
        self._opened().bytes_down += sum(map(len, messages.values()))
        return messages

    def _opened(self) -> Opened:
        if self._open is None:
            raise RuntimeError("no round is open")
        return self._open

    # --- closing ------------------------------------------------------------------------------------------

    def _screened(self, opened: Opened, uploads: Mapping[int, bytes]) -> Iterator[Screened]:
        asked = opened.reports if self.reporting else opened.clients
        for client in asked:
            if client not in uploads:
                continue
            opened.bytes_up += len(uploads[client])
            signal = opened.reports[client].signal if client in opened.reports else None
            yield opened.screen.upload(uploads[client], client, opened.granted.get(client), signal)
        yield from self.late.screened(opened, uploads)

    def _values(self, opened: Opened, screened: Screened, uploads: Mapping[int, bytes]) -> Tensor:
        """Of an upload that passed, shape (numel,): in the exchange dtype, or float64 where it is late."""
        if screened.staleness:
            return self.late.values(screened, opened.base)
        return opened.screen.values(screened, uploads[screened.client])

    def _audited(
        self, opened: Opened, screened: list[Screened], uploads: Mapping[int, bytes]
    ) -> tuple[list[Screened], dict[int, Evidence]]:
        if self.auditor is None:
            return screened, self.state.evidence
        state = self.state
        return self.auditor.audit(
            state.round, state.evidence, opened.base, screened, lambda s: self._values(opened, s, uploads)
        )

    def _advance(
        self,
        opened: Opened,
        good: list[Screened],
        screened: list[Screened],
        uploads: Mapping[int, bytes],
    ) -> None:
        """The round is done: note what its clients said and hold, and how they behaved."""
        self.state.behaved(self.spec.screening, opened.away, screened)
        self.state.reported |= {
            s.client: (s.upload.changed, s.upload.signal.reward_std) for s in good if s.upload is not None
        }
        if self.codec != "dense":
            self.state.downlink.late({s.client: s.upload.base for s in good if s.upload and s.staleness})
            fresh = [s.client for s in good if not s.staleness]
            self.state.downlink.answered(fresh, opened.digest, opened.base)
        self.state.ledger += self.late.settle(opened, uploads, good)
        self.state.round += 1

    def _combined(
        self, opened: Opened, good: list[Screened], uploads: Mapping[int, bytes], refused: int
    ) -> tuple[dict[int, float], float | None]:
        passed = {s.client: s for s in good}
        gathered = Gathered.of(
            opened.base,
            good,
            lambda k: self._values(opened, passed[k], uploads),
            lambda k: opened.screen.vectors(uploads[k]),
        )
        return self._combination.step(self.state, gathered, refused)
