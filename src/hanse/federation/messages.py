"""What client and server say to one another: frozen dataclasses that turn themselves into bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hanse.federation.signal import Signal
from hanse.federation.wire.dense import DTYPES
from hanse.federation.wire.frame import WireError, decode_frame, encode_frame, field

HEADER_ROOM = 1 << 16
"""Bytes that a message may have beside its values."""


@dataclass(frozen=True)
class Broadcast:
    """The server opens a round: everybody's new values, and the global mean reward of the last round."""

    round: int
    values: bytes | memoryview
    dtype: str
    base: str
    reward_mean: float | None = None

    def to_bytes(self) -> bytes:
        return self._encoded

    @cached_property
    def _encoded(self) -> bytes:
        """Kept, as one broadcast goes to many clients."""
        fields = {
            "round": self.round,
            "dtype": self.dtype,
            "base": self.base,
            "reward_mean": self.reward_mean,
        }
        return encode_frame("broadcast", fields, [self.values])

    @classmethod
    def from_bytes(cls, data: bytes, *, max_bytes: int) -> Broadcast:
        """Raises WireError."""
        frame = decode_frame(data, kind="broadcast", max_bytes=max_bytes)
        (values,) = _exactly(frame.buffers, 1)
        return cls(
            round=_count(field(frame, "round", int)),
            values=values,
            dtype=_dtype(field(frame, "dtype", str)),
            base=field(frame, "base", str),
            reward_mean=field(frame, "reward_mean", (float, type(None))),
        )


@dataclass(frozen=True)
class Upload:
    """A client answers: its signal and its values after training (values, not differences: in float32
    `old + (new - old)` is not `new`)."""

    round: int
    client: int
    base: str
    dtype: str
    signal: Signal
    values: bytes | memoryview

    def to_bytes(self) -> bytes:
        fields = {
            "round": self.round,
            "client": self.client,
            "base": self.base,
            "dtype": self.dtype,
            "signal": self.signal.to_fields(),
        }
        return encode_frame("upload", fields, [self.values])

    @classmethod
    def from_bytes(cls, data: bytes, *, max_bytes: int) -> Upload:
        """Raises WireError."""
        frame = decode_frame(data, kind="upload", max_bytes=max_bytes)
        (values,) = _exactly(frame.buffers, 1)
        try:
            signal = Signal.from_fields(frame.fields.get("signal"))
        except ValueError as error:
            raise WireError(str(error)) from error
        return cls(
            round=_count(field(frame, "round", int)),
            client=_count(field(frame, "client", int)),
            base=field(frame, "base", str),
            dtype=_dtype(field(frame, "dtype", str)),
            signal=signal,
            values=values,
        )


def max_message_bytes(numel: int, dtype: str) -> int:
    """The largest honest message for `numel` parameters."""
    return numel * DTYPES[dtype].itemsize + HEADER_ROOM


def _exactly(buffers: tuple[memoryview, ...], count: int) -> tuple[memoryview, ...]:
    if len(buffers) != count:
        raise WireError(f"{len(buffers)} buffers; expected {count}")
    return buffers


def _count(value: int) -> int:
    if not 0 <= value < 2**31:
        raise WireError("a count is out of range")
    return value


def _dtype(value: str) -> str:
    if value not in DTYPES:
        raise WireError("unknown dtype")
    return value
