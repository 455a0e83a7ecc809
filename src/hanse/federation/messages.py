"""What client and server say to one another: frozen dataclasses that turn themselves into bytes.

A round is Broadcast -> Upload, or with a budget Broadcast -> Report -> Grant -> Upload. A client that does
not hold the base that a patch is for answers Resync and gets whole values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from hanse.federation.signal import MAX_REWARD, Signal
from hanse.federation.wire.dense import DTYPES
from hanse.federation.wire.frame import (
    Frame,
    WireError,
    count,
    count_of,
    decode_frame,
    encode_frame,
    kind_of,
)
from hanse.federation.wire.frame import field as read

HEADER_ROOM = 1 << 16
"""Bytes that a message may have beside its values."""
MAX_EXTRAS = 2
"""Vectors that a message may carry beside its values."""
MAX_PROMPTS = 1 << 20
"""Prompts that a server may ask a client to take a step."""
Form = Literal["values", "patch", "quantised"]
_FORMS = ("values", "patch", "quantised")


@dataclass(frozen=True)
class Payload:
    """Values on the way: "values" stand for themselves, a "patch" or "quantised" changes need the base."""

    form: Form
    data: bytes | memoryview


@dataclass(frozen=True)
class Broadcast:
    """The server opens a round: everybody's new values, and the global mean reward of the last round.

    `base` is the hash of the values, `patched` of those that a patch is for. `entries`: how many changed
    entries may be uploaded; `fraction`: the share of them, where nothing is known yet; `reporting`: whether
    a Report is asked for first. `prompts`: how many a local step takes, None: as the recipe says. `extras`:
    further float32 vectors by name; the one called "lift" goes into the base, and `lift` says how (see
    `offset.Lift`).
    """

    round: int
    payload: Payload
    dtype: str
    base: str
    patched: str | None = None
    reward_mean: float | None = None
    entries: int | None = None
    fraction: float | None = None
    reporting: bool = False
    prompts: int | None = None
    extras: Mapping[str, bytes | memoryview] = field(default_factory=dict)
    lift: tuple[int, int | None, int] | None = None

    def to_bytes(self) -> bytes:
        return self._encoded

    @cached_property
    def _encoded(self) -> bytes:
        """Kept, as one broadcast goes to many clients."""
        names = ("round", "dtype", "base", "patched", "reward_mean", "entries", "fraction", "reporting")
        more = {"prompts": self.prompts, "lift": self.lift}
        return _pack("broadcast", self, names, self.payload, self.extras, **more)

    @classmethod
    def from_bytes(cls, data: bytes, *, max_bytes: int) -> Broadcast:
        """Raises WireError."""
        frame = decode_frame(data, kind="broadcast", max_bytes=max_bytes)
        payload, extras = _unpack(frame)
        entries = read(frame, "entries", (int, type(None)))
        return cls(
            round=count(frame, "round"),
            payload=payload,
            dtype=_dtype(frame),
            base=read(frame, "base", str),
            patched=read(frame, "patched", (str, type(None))),
            reward_mean=_number(frame, "reward_mean", MAX_REWARD),
            entries=None if entries is None else count_of(entries),
            fraction=_number(frame, "fraction", 1.0),
            reporting=read(frame, "reporting", bool),
            prompts=_prompts(read(frame, "prompts", (int, type(None)))),
            extras=extras,
            lift=_lift(read(frame, "lift", (list, type(None)))),
        )


@dataclass(frozen=True)
class Report:
    """A client has trained: its signal, and how many exchanged values changed."""

    round: int
    client: int
    base: str
    signal: Signal
    changed: int

    def to_bytes(self) -> bytes:
        fields = {"round": self.round, "client": self.client, "base": self.base, "changed": self.changed}
        return encode_frame("report", {**fields, "signal": self.signal.to_fields()})

    @classmethod
    def from_bytes(cls, data: bytes) -> Report:
        """Raises WireError."""
        frame = decode_frame(data, kind="report", max_bytes=HEADER_ROOM)
        return cls(
            round=count(frame, "round"),
            client=count(frame, "client"),
            base=read(frame, "base", str),
            signal=_signal(frame),
            changed=count(frame, "changed"),
        )


@dataclass(frozen=True)
class Grant:
    """The server's answer to a report: how many changed entries the client may upload."""

    round: int
    client: int
    entries: int

    def to_bytes(self) -> bytes:
        fields = {"round": self.round, "client": self.client, "entries": self.entries}
        return encode_frame("grant", fields)

    @classmethod
    def from_bytes(cls, data: bytes) -> Grant:
        """Raises WireError."""
        frame = decode_frame(data, kind="grant", max_bytes=HEADER_ROOM)
        return cls(*(count(frame, name) for name in ("round", "client", "entries")))


@dataclass(frozen=True)
class Resync:
    """A client's plea for whole values: it does not hold the base of the patch that it received."""

    round: int
    client: int

    def to_bytes(self) -> bytes:
        return encode_frame("resync", {"round": self.round, "client": self.client})

    @classmethod
    def from_bytes(cls, data: bytes) -> Resync:
        """Raises WireError."""
        frame = decode_frame(data, kind="resync", max_bytes=HEADER_ROOM)
        return cls(*(count(frame, name) for name in ("round", "client")))


@dataclass(frozen=True)
class Upload:
    """A client answers: its signal and its values after training (values, not differences: in float32
    `old + (new - old)` is not `new`). `changed`: how many of them differ from the base before selection."""

    round: int
    client: int
    base: str
    dtype: str
    signal: Signal
    payload: Payload
    changed: int = 0
    extras: Mapping[str, bytes | memoryview] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        names = ("round", "client", "base", "dtype", "changed")
        return _pack("upload", self, names, self.payload, self.extras, signal=self.signal.to_fields())

    @classmethod
    def from_bytes(cls, data: bytes, *, max_bytes: int) -> Upload:
        """Raises WireError."""
        frame = decode_frame(data, kind="upload", max_bytes=max_bytes)
        payload, extras = _unpack(frame)
        return cls(
            round=count(frame, "round"),
            client=count(frame, "client"),
            base=read(frame, "base", str),
            dtype=_dtype(frame),
            signal=_signal(frame),
            payload=payload,
            changed=count(frame, "changed"),
            extras=extras,
        )


def is_resync(data: bytes, client: int, round: int) -> bool:
    """Whether these bytes are this client's plea for whole values in this round."""
    try:
        return kind_of(data) == "resync" and Resync.from_bytes(data) == Resync(round, client)
    except WireError:
        return False


def max_message_bytes(numel: int, dtype: str, extras: int = 0) -> int:
    """The largest honest message for `numel` parameters and `extras` vectors of as many float32 values."""
    values = numel * DTYPES[dtype].itemsize
    return values + values // 1000 + extras * numel * 4 + HEADER_ROOM


def _pack(
    kind: str,
    message: object,
    names: Sequence[str],
    payload: Payload,
    extras: Mapping[str, bytes | memoryview],
    **more: Any,
) -> bytes:
    fields = {name: getattr(message, name) for name in names} | more
    fields |= {"form": payload.form, "extras": list(extras)}
    return encode_frame(kind, fields, [payload.data, *extras.values()])


def _unpack(frame: Frame) -> tuple[Payload, dict[str, memoryview]]:
    names, form = read(frame, "extras", list), read(frame, "form", str)
    if len(names) > MAX_EXTRAS or not all(type(n) is str for n in names) or len(set(names)) != len(names):
        raise WireError("extras are not a few different names")
    if len(frame.buffers) != 1 + len(names):
        raise WireError(f"{len(frame.buffers)} buffers; expected {1 + len(names)}")
    if form not in _FORMS:
        raise WireError("unknown form of values")
    return Payload(form, frame.buffers[0]), dict(zip(names, frame.buffers[1:], strict=True))


def _signal(frame: Frame) -> Signal:
    try:
        return Signal.from_fields(frame.fields.get("signal"))
    except ValueError as error:
        raise WireError(str(error)) from error


def _prompts(value: int | None) -> int | None:
    if value is not None and not 1 <= value <= MAX_PROMPTS:
        raise WireError("field 'prompts' is out of range")
    return value


def _lift(value: list[Any] | None) -> tuple[int, int | None, int] | None:
    if value is None:
        return None
    if len(value) != 3 or not all(type(n) is int or (i == 1 and n is None) for i, n in enumerate(value)):
        raise WireError("field 'lift' does not hold three numbers")
    version, previous, rank = value
    return count_of(version), None if previous is None else count_of(previous), count_of(rank)


def _number(frame: Frame, name: str, limit: float) -> float | None:
    value = read(frame, name, (float, int, type(None)))
    if value is not None and not abs(value) <= limit:
        raise WireError(f"field {name!r} is out of range")
    return None if value is None else float(value)


def _dtype(frame: Frame) -> str:
    value: str = read(frame, "dtype", str)
    if value not in DTYPES:
        raise WireError("unknown dtype")
    return value
