"""What a server accepts: every message is read here first, and a bad one is counted, never fatal."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from hanse.federation.conduct import Conduct
from hanse.federation.messages import Payload, Report, Upload, max_message_bytes
from hanse.federation.payload import entries_of, unpack, unpack_vector
from hanse.federation.signal import Signal, largest_std
from hanse.federation.wire.frame import WireError
from hanse.federation.wire.layout import Layout
from hanse.recipe.federation import ScreeningSpec

LONGEST = 1e6
"""No honest update has this norm; sums and squares of shorter ones stay finite in float32."""


@dataclass(frozen=True)
class Screened:
    """An upload that passed, the norms of its update and of the local method's vectors, and how many entries
    it changes; or the reason why it did not pass. `trust`: see `audit`; `staleness`: rounds that it is late,
    `freshness`: what it counts for all that, see `lateness`.

    `values` are those of small models only. Of large ones nothing but the signal is kept: the server reads
    the bytes again when it combines, one client's at a time.
    """

    client: int
    upload: Upload | None
    norm: float = 0.0
    entries: int = 0
    reason: str | None = None
    values: Tensor | None = None
    vectors: Mapping[str, float] = field(default_factory=dict)
    trust: float = 1.0
    staleness: int = 0
    freshness: float = 1.0

    @property
    def lengths(self) -> dict[str, float]:
        return {"update": self.norm, **self.vectors}


@dataclass(frozen=True)
class Screen:
    """Checks messages against the open round.

    `base`: the round's values, shape (numel,) in the exchange dtype, `digest` their hash; `extras`: sizes of
    the vectors that each upload must carry; `group_size`: of honest groups; `keep`: whether decoded values
    are kept; `resting`: entries that no upload may change, bool, shape (numel,); `most_updates`: optimiser
    updates that a round has at most, where known; `squares`: those of `extras` that are means of squares.
    """

    spec: ScreeningSpec
    layout: Layout
    round: int
    digest: str
    base: Tensor
    extras: Mapping[str, int]
    group_size: int
    keep: bool = False
    resting: Tensor | None = None
    most_updates: int | None = None
    squares: Collection[str] = ()
    still: bool = False

    def report(self, data: bytes, client: int) -> Report:
        """Raises WireError, in words, for a report that cannot be used."""
        report = Report.from_bytes(data)
        self._belongs(report, client)
        self._plausible(report)
        return report

    def upload(self, data: bytes, client: int, allowed: int | None, reported: Signal | None) -> Screened:
        """One client's upload: form, size, round, base, sender, budget, finite values.

        `allowed`: the entries granted; `reported`: the signal of its report.
        """
        try:
            return self._upload(data, client, allowed, reported)
        except WireError as error:
            return Screened(client, None, reason=str(error))

    def _upload(self, data: bytes, client: int, allowed: int | None, reported: Signal | None) -> Screened:
        limit = max_message_bytes(self.layout.numel, self.layout.dtype) + 4 * sum(self.extras.values())
        upload = Upload.from_bytes(data, max_bytes=limit)
        self._belongs(upload, client)
        if upload.dtype != self.layout.dtype:
            raise WireError("has another dtype")
        self._plausible(upload)
        if reported is not None and upload.signal != reported:
            raise WireError("has another signal than its report")
        if set(upload.extras) != set(self.extras):
            raise WireError("carries other vectors than the local method asks for")
        vectors = {name: self._length(name, upload.extras[name]) for name in self.extras}
        values = unpack(upload.payload, self.base, self.layout, self.digest)
        if self.resting is not None and not bool((values == self.base)[self.resting].all()):
            raise WireError("changes factors that are not exchanged in this round")
        entries = entries_of(values, self.base)
        if allowed is not None and entries > allowed:
            raise WireError(f"changes {entries} entries; granted were {allowed}")
        if self.still and entries and upload.signal.informative == 0:
            raise WireError(f"changes {entries} entries, though no group had differing rewards")
        norm = float((values.double() - self.base.double()).norm())
        for name, length in {"update": norm, **vectors}.items():
            if length > LONGEST:
                raise WireError(f"has a norm of {length:.3g} in its {name}, which no honest round has")
        if self.keep:
            return Screened(client, upload, norm, entries, values=values, vectors=vectors)
        signal = replace(upload, payload=Payload(upload.payload.form, b""), extras={})
        return Screened(client, signal, norm, entries, vectors=vectors)

    def _length(self, name: str, data: bytes | memoryview) -> float:
        """The norm of one of `extras`; of squares that of their roots, which grow as updates do."""
        vector = unpack_vector(data, self.extras[name]).double()
        if name not in self.squares:
            return float(vector.norm())
        if bool((vector < 0).any()):
            raise WireError(f"has a negative square in {name}")
        return float(vector.sum().sqrt())

    def values(self, screened: Screened, data: bytes) -> Tensor:
        """The values of an upload that passed and its bytes, shape (numel,) in the exchange dtype."""
        if screened.values is not None:
            return screened.values
        payload = Upload.from_bytes(data, max_bytes=len(data)).payload
        return unpack(payload, self.base, self.layout, self.digest)

    def vectors(self, data: bytes) -> dict[str, Tensor]:
        """The extras of an upload that passed, from its bytes."""
        extras = Upload.from_bytes(data, max_bytes=len(data)).extras
        return {name: unpack_vector(extras[name], size) for name, size in self.extras.items()}

    def _belongs(self, message: Report | Upload, client: int) -> None:
        if message.client != client:
            raise WireError("speaks in another client's name")
        if message.round != self.round:
            raise WireError(f"is for round {message.round}, not {self.round}")
        if message.base != self.digest:
            raise WireError("was trained from another base")

    def _plausible(self, message: Report | Upload) -> None:
        """Counts within what there is, and rewards within their bounds."""
        signal = message.signal
        if message.changed > self.layout.numel:
            raise WireError("more changed entries than there are parameters")
        if self.most_updates is not None and signal.updates > self.most_updates:
            raise WireError(f"reports {signal.updates} updates; a round has {self.most_updates}")
        if self.spec.max_samples is not None and signal.samples > self.spec.max_samples:
            raise WireError(f"reports {signal.samples} problems; the most are {self.spec.max_samples}")
        if self.spec.reward_range is not None:
            self._honest(signal, *self.spec.reward_range)

    def _honest(self, signal: Signal, low: float, high: float) -> None:
        """No honest client reports a deviation that its mean reward excludes: a necessary condition only.

        The slack is for float32 rewards of this size.
        """
        slack = 1e-6 * max(1.0, abs(low), abs(high))
        if not low - slack <= signal.reward_mean <= high + slack:
            raise WireError(f"reports a mean reward outside [{low:g}, {high:g}]")
        widest = math.sqrt(max(0.0, (high - signal.reward_mean) * (signal.reward_mean - low)))
        bound = widest if signal.partial else largest_std(signal.reward_mean, low, high, self.group_size)
        if signal.reward_std > bound + slack or signal.reward_std_pooled > widest + slack:
            raise WireError("reports a reward deviation that its mean reward excludes")
        most = (high - low) / 2 * signal.informative / max(1, signal.groups)
        if signal.reward_std > most + slack:
            raise WireError("reports a reward deviation that so few groups with differing rewards exclude")


def gate_norms(screened: Sequence[Screened], spec: ScreeningSpec, conduct: Conduct) -> list[Screened]:
    """Refuse updates, and vectors beside them, whose norm is above `max_norm` times the median of this round
    and the last ones (see `conduct`)."""
    if spec.max_norm is None:
        return list(screened)
    middles = conduct.medians(s.lengths for s in screened if s.upload is not None)
    return [_gated(s, middles, spec.max_norm) if s.upload is not None else s for s in screened]


def _gated(screened: Screened, middles: Mapping[str, float], most: float) -> Screened:
    for name, middle in middles.items():
        if 0 < most * middle < (length := screened.lengths[name]):
            reason = f"{name} norm {length:.3g}; the median is {middle:.3g}"
            return replace(screened, upload=None, reason=reason)
    return screened
