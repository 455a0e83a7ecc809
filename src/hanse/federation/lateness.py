"""Uploads that came after their round was over: discarded, or weighed by how late they are.

Clients send values, not changes. An upload of round r that is combined in round t is s = t - r rounds late;
its change is formed against the base that its client started from, and moves the base of round t:

    target = base_t + sum_k w_k (v_k - base_{r_k}),  w_k in proportion to p_k (1 + s_k)^-a,  sum_k w_k = 1

with p_k as the recipe weighs clients and a its exponent: the polynomial of FedAsync (Xie et al. 2019,
1903.03934), as a share of the round's mean and not of the model. With s = 0 this is the plain mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from hanse.federation.messages import Upload
from hanse.federation.opened import Opened
from hanse.federation.screening import Screen, Screened
from hanse.federation.wire.frame import WireError, kind_of

WEIGHED, DISCARDED = "late upload weighed", "late upload discarded"
"""What the ledger's lines about a client's late uploads begin with."""


def freshness(late: int, exponent: float) -> float:
    """(1 + s)^-a of an upload that is s rounds late."""
    return float((1 + late) ** -exponent)


def carried(values: Tensor, start: Tensor, base: Tensor) -> Tensor:
    """`base` moved by the change that a client made to `start`, float64, shape (numel,)."""
    return base.double() + (values.double() - start.double())


def counts_of(ledger: Mapping[str, int]) -> dict[str, int]:
    """What became of late uploads in a run, from its ledger."""
    kinds = {"late_weighed": WEIGHED, "late_discarded": DISCARDED}
    return {name: sum(n for line, n in ledger.items() if kind in line) for name, kind in kinds.items()}


@dataclass
class _Past:
    """A round that is over, and those of its clients whose uploads may still come."""

    screen: Screen
    waiting: set[int]


@dataclass
class Latecomers:
    """What a server holds of late uploads: at most one for each client, and the bases of the last `rounds`
    rounds, as long as somebody has not answered them. Nothing of it is in a checkpoint: what is on its way
    when a server stops is lost, which the runtime counts, and what comes later belongs to later rounds.
    """

    exponent: float
    rounds: int
    _past: dict[int, _Past] = field(default_factory=dict)
    _frames: dict[int, bytes] = field(default_factory=dict)
    _unread: int = 0
    _discarded: dict[int, str] = field(default_factory=dict)
    _replaced: Counter[int] = field(default_factory=Counter)

    def hear(self, uploads: Mapping[int, bytes]) -> None:
        """Keep uploads, by client, until a round closes. Of two of a client the one that came last."""
        self._replaced.update(client for client in uploads if client in self._frames)
        self._frames |= uploads
        self._unread += sum(map(len, uploads.values()))

    def joined(self, opened: Opened, uploads: Mapping[int, bytes]) -> Mapping[int, bytes]:
        """`uploads`, and those that were late for an earlier exchange of the same round."""
        own = {k: data for k, data in self._frames.items() if _round_of(data) == opened.screen.round}
        more = {k: data for k, data in own.items() if k in opened.clients and k not in uploads}
        return {**uploads, **more} if more else uploads

    def screened(self, opened: Opened, uploads: Mapping[int, bytes]) -> list[Screened]:
        """Late uploads, by the screens of their own rounds, their values carried over to the open one's base.

        `uploads`: those of the open round. A client's newest upload counts; what is too old, or of a client
        in quarantine, is discarded, which is no refusal.
        """
        checked = {k: self._unusable(opened, uploads, k) for k in sorted(self._frames)}
        self._discarded = {k: why for k, why in checked.items() if why is not None}
        heard = [self._screened(opened, k) for k, why in checked.items() if why is None and k not in uploads]
        counted = sum(len(self._frames[k]) for k, why in checked.items() if why is None and k in uploads)
        opened.bytes_up, self._unread = opened.bytes_up + self._unread - counted, counted
        for one in heard:
            if one.reason is not None:
                del self._frames[one.client]
        return heard

    def values(self, screened: Screened, base: Tensor) -> Tensor:
        """What a late upload that passed would move the open round's `base` to, shape (numel,)."""
        if screened.values is not None:
            return screened.values
        assert screened.upload is not None
        screen = self._past[screened.upload.round].screen
        return carried(screen.values(screened, self._frames[screened.client]), screen.base, base)

    def settle(self, opened: Opened, uploads: Mapping[int, bytes], good: Sequence[Screened]) -> Counter[str]:
        """The open round is over: what became of late uploads, in words for the ledger. Keeps its base for
        those that have not answered, and forgets the oldest."""
        told = Counter({f"client {k}: {DISCARDED}: {why}": 1 for k, why in self._discarded.items()})
        for client, count in self._replaced.items():
            told[f"client {client}: {DISCARDED}: a newer one came"] += count
        weighed = [one.client for one in good if one.staleness]
        told.update(f"client {client}: {WEIGHED}" for client in weighed)
        number, done = opened.screen.round, {*uploads, *weighed}
        self._past[number] = _Past(opened.screen, set(opened.clients))
        for past in self._past.values():
            past.waiting -= done
        self._past = {r: past for r, past in self._past.items() if r > number - self.rounds and past.waiting}
        self._frames, self._discarded, self._replaced, self._unread = {}, {}, Counter(), 0
        return told

    def _unusable(self, opened: Opened, uploads: Mapping[int, bytes], client: int) -> str | None:
        """Why a late upload is discarded; None where it is to be screened, or is in `uploads` itself."""
        data = self._frames[client]
        if client in uploads:
            return None if uploads[client] == data else "the client answered the open round too"
        if client in opened.away:
            return "the client is in quarantine"
        if _is_resync(data):
            return "it asks for whole values"
        number = _round_of(data)
        if number is None or (number in self._past and client in self._past[number].waiting):
            return None
        return "its round is too old, or was answered"

    def _screened(self, opened: Opened, client: int) -> Screened:
        data = self._frames[client]
        number = _round_of(data)
        if number is None:
            return opened.screen.upload(data, client, None, None)
        screen = self._past[number].screen
        found = screen.upload(data, client, None, None)
        values = None if found.values is None else carried(found.values, screen.base, opened.base)
        late = opened.screen.round - number
        fresh = freshness(late, self.exponent)
        return replace(found, staleness=late, freshness=fresh, values=values)


def _round_of(data: bytes) -> int | None:
    """The round that an upload is of; None for bytes that are no upload."""
    try:
        return Upload.from_bytes(data, max_bytes=len(data)).round
    except WireError:
        return None


def _is_resync(data: bytes) -> bool:
    try:
        return kind_of(data) == "resync"
    except WireError:
        return False
