"""The server of a federation: one round, transport-free."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from hanse.federation.aggregation import lora_rule, pairs_of, resting_entries
from hanse.federation.audit import Evidence
from hanse.federation.auditor import Auditor
from hanse.federation.budget import share_entries
from hanse.federation.combination import Combination, Gathered
from hanse.federation.conduct import drawn
from hanse.federation.diagnostics import MOST_VALUES, cosines
from hanse.federation.local import LOCAL_METHODS
from hanse.federation.messages import Broadcast, Grant, is_resync
from hanse.federation.offset import Lift, Offset
from hanse.federation.opened import Opened
from hanse.federation.payload import cast, pack_vector
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
    usable uploads that close a round; `spare`: clients drawn beyond the recipe's share. `root`: of FLTrust;
    `still`: see `screening.Screen`.
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
    ) -> None:
        self.spec, self.layout, self.clients, self.state = spec, layout, sorted(clients), state
        self.seed, self.group_size, self.most_updates, self.prompts = seed, group_size, most_updates, prompts
        self.needed, self.spare, self.still, self.auditor = needed, spare, still, auditor
        self.codec = codec_in_force(spec, layout.dtype)
        self._method, self._rule = LOCAL_METHODS[spec.local], lora_rule(spec.aggregation)
        self._combination = Combination(spec, layout, len(self.clients), seed, scaling, root)
        if self._rule.lifts and state.offset is None:
            state.offset = Offset.zeros(pairs_of(layout))
        self._sizes = layout.sizes()
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
        prompts = allotted(self.spec.rollouts, clients, self.state.informative, self.prompts)
        self._open = Opened(digest, base, clients, screen, self._lagged_grants(clients), prompts, away)
        lossless = self.codec != "dense"
        held = {k: self.state.downlink.known_to(k) if lossless else None for k in clients}
        return self._send(self._broadcasts(held))

    def resend(self, replies: Mapping[int, bytes]) -> dict[int, bytes]:
        """Whole values for clients that did not hold the base of the patch that they received."""
        opened = self._opened()
        asking = []
        for client in opened.clients:
            if client in replies and is_resync(replies[client], client, self.state.round):
                asking.append(client)
                opened.bytes_up += len(replies[client])
                self.state.ledger[f"client {client}: asked for whole values"] += 1
        return self._send(self._broadcasts(dict.fromkeys(asking), whole=True))

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
        opened.granted = self._shared(reported)
        grants = {k: Grant(self.state.round, k, n).to_bytes() for k, n in opened.granted.items()}
        return self._send(grants)

    def close_round(self, uploads: Mapping[int, bytes]) -> RoundRecord:
        """Screen, weigh, combine. With fewer than `needed` usable uploads nothing changes but the ledger: the
        record has no weights, and the same round may be opened again.

        `uploads` maps client id to the bytes received; their order does not matter. They are read one at a
        time, so where they lie on disk memory does not grow with their number.
        """
        opened = self._opened()
        heard = [*opened.refused, *self._screened(opened, uploads)]
        screened = gate_norms(heard, opened.screen.spec, self.state.conduct)
        screened, evidence = self._audited(opened, screened, uploads)
        screened.sort(key=lambda s: s.client)
        good = [s for s in screened if s.upload is not None]
        usable, refused = len(good), len(screened) - len(good) + len(opened.away)
        met = self._combination.suffices(self.state.ledger, usable, refused) and usable >= self.needed
        weights, residual = self._combined(opened, good, uploads, refused) if good and met else ({}, None)
        for one in (s for s in screened if s.reason is not None):
            self.state.ledger[f"client {one.client}: {one.reason}"] += 1
        if met:
            self.state.evidence = evidence
            self._advance(opened, good, screened)
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

    # --- opening ------------------------------------------------------------------------------------------

    def _broadcasts(self, held: Mapping[int, str | None], *, whole: bool = False) -> dict[int, bytes]:
        """One message a client, often the same. `whole`: it may not build on what the client holds."""
        opened, budget = self._opened(), self.spec.budget
        names = self._method.receives(self._sizes)
        extras = {n: pack_vector(self.state.local[n]) for n in names if n in self.state.local}
        made: dict[tuple[object, ...], bytes] = {}
        keys: dict[int, tuple[object, ...]] = {}
        for client, patched in held.items():
            entries, prompts = opened.granted.get(client), opened.prompts.get(client)
            lift = self._lift(client, whole)
            keys[client] = key = (patched, entries, prompts, lift and lift.previous)
            if key not in made:
                made[key] = Broadcast(
                    round=self.state.round,
                    payload=self.state.downlink.payload(opened.base, patched, self.layout, self.codec),
                    dtype=self.layout.dtype,
                    base=opened.digest,
                    patched=patched,
                    reward_mean=self.state.reward_mean,
                    entries=entries,
                    fraction=budget.fraction if entries is None and not self.reporting else None,
                    reporting=self.reporting,
                    prompts=prompts,
                    extras=extras if lift is None else extras | {"lift": lift.data},
                    lift=None if lift is None else (lift.version, lift.previous, lift.rank),
                ).to_bytes()
        return {client: made[key] for client, key in keys.items()}

    def _lift(self, client: int, whole: bool) -> Lift | None:
        return None if self.state.offset is None else self.state.offset.lift(client, whole=whole)

    def _lagged_grants(self, clients: Sequence[int]) -> dict[int, int]:
        """Grants by what clients last reported; none for those that never did."""
        budget = self.spec.budget
        if budget.fraction is None or budget.share == "own" or budget.grant != "lagged":
            return {}
        return self._shared({k: self.state.reported[k] for k in clients if k in self.state.reported})

    def _shared(self, reported: Mapping[int, tuple[int, float]]) -> dict[int, int]:
        assert self.spec.budget.fraction is not None
        by_signal = self.spec.budget.share == "signal"
        shares = [std if by_signal else 1.0 for _, std in reported.values()]
        counts = share_entries([n for n, _ in reported.values()], shares, self.spec.budget.fraction)
        return dict(zip(reported, counts, strict=True))

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

    def _audited(
        self, opened: Opened, screened: list[Screened], uploads: Mapping[int, bytes]
    ) -> tuple[list[Screened], dict[int, Evidence]]:
        if self.auditor is None:
            return screened, self.state.evidence
        state, screen = self.state, opened.screen
        return self.auditor.audit(
            state.round, state.evidence, opened.base, screened, lambda s: screen.values(s, uploads[s.client])
        )

    def _advance(self, opened: Opened, good: list[Screened], screened: list[Screened]) -> None:
        """The round is done: note what its clients said and hold, and how they behaved."""
        self.state.behaved(self.spec.screening, opened.away, screened)
        self.state.reported |= {
            s.client: (s.upload.changed, s.upload.signal.reward_std) for s in good if s.upload is not None
        }
        if self.codec != "dense":
            self.state.downlink.answered([s.client for s in good], opened.digest, opened.base)
        self.state.round += 1

    def _combined(
        self, opened: Opened, good: list[Screened], uploads: Mapping[int, bytes], refused: int
    ) -> tuple[dict[int, float], float | None]:
        passed = {s.client: s for s in good}
        gathered = Gathered.of(
            opened.base,
            good,
            lambda k: opened.screen.values(passed[k], uploads[k]),
            lambda k: opened.screen.vectors(uploads[k]),
        )
        return self._combination.step(self.state, gathered, refused)
