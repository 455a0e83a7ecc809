"""What a node sends: completions of its slots, and nothing that anybody would have to believe.

No answer, no test, no reward travels. Tokens where all nodes have one policy; text where they differ, which
the receiver encodes with its own tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from hanse.federation.wire.frame import Frame, WireError, decode_frame, encode_frame
from hanse.federation.wire.frame import field as read

Finish = Literal["stop", "length"]
_FINISHES = ("stop", "length")
_KINDS = ("tokens", "text")
MAX_ID = 512
_ROOM = 1 << 12
"""Bytes that a delivery may have beside its tokens or text."""


@dataclass(frozen=True)
class Tokens:
    """A completion as the sampler drew it, end token included; `logp`: the sender's claim, or None."""

    ids: tuple[int, ...]
    logp: npt.NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Text:
    """A completion for receivers with another tokenizer."""

    text: str


@dataclass(frozen=True)
class Delivery:
    """One completion: the answer to `problem` in `slot`, which node `node` made with the policy `policy` (a
    digest) and the random stream of `seed`."""

    problem: str
    slot: int
    node: int
    seed: int
    policy: str
    finish: Finish
    completion: Tokens | Text


@dataclass(frozen=True)
class Bundle:
    """All that a node sends in a round."""

    round: int
    node: int
    deliveries: tuple[Delivery, ...]

    def to_bytes(self) -> bytes:
        return encode_frame(
            "bundle",
            {"round": self.round, "node": self.node, "deliveries": [_header(d) for d in self.deliveries]},
            [buffer for d in self.deliveries for buffer in _buffers(d.completion)],
        )

    @classmethod
    def from_bytes(cls, data: bytes, limits: Limits) -> Bundle:
        """Raises WireError for anything that is not a well-formed bundle within `limits`."""
        frame = decode_frame(data, kind="bundle", max_bytes=limits.bytes, max_header=limits.header)
        node = _count(read(frame, "node", int))
        headers = read(frame, "deliveries", list)
        if len(headers) > limits.deliveries:
            raise WireError(f"{len(headers)} deliveries; at most {limits.deliveries} are due")
        parts, used = [], 0
        for header in headers:
            delivery, used = _delivery(header, node, frame, used, limits)
            parts.append(delivery)
        if used != len(frame.buffers):
            raise WireError("buffers that belong to no delivery")
        return cls(_count(read(frame, "round", int)), node, tuple(parts))


@dataclass(frozen=True)
class Limits:
    """What a bundle may hold: deliveries, tokens a completion, ids below `vocabulary`."""

    deliveries: int
    tokens: int
    vocabulary: int

    @property
    def characters(self) -> int:
        return 64 * self.tokens

    @property
    def header(self) -> int:
        return (self.deliveries + 1) * _ROOM

    @property
    def bytes(self) -> int:
        return self.deliveries * self.tokens * 64 * 4 + self.header


def _header(d: Delivery) -> list[object]:
    kind = "text" if isinstance(d.completion, Text) else "tokens"
    claims = isinstance(d.completion, Tokens) and d.completion.logp is not None
    return [d.problem, d.slot, d.seed, d.policy, d.finish, kind, claims]


def _buffers(completion: Tokens | Text) -> Sequence[bytes]:
    if isinstance(completion, Text):
        return [completion.text.encode("utf-8", "replace")]
    ids = np.asarray(completion.ids, "<u4").tobytes()
    return [ids] if completion.logp is None else [ids, completion.logp.astype("<f4").tobytes()]


def _delivery(header: object, node: int, frame: Frame, used: int, limits: Limits) -> tuple[Delivery, int]:
    types = (str, int, int, str, str, str, bool)
    if not isinstance(header, list) or [type(x) for x in header] != list(types):
        raise WireError("a delivery's header has the wrong form")
    problem, slot, seed, policy, finish, kind, claims = header
    if len(problem) > MAX_ID or len(policy) > MAX_ID or finish not in _FINISHES or kind not in _KINDS:
        raise WireError("a delivery's header has values out of range")
    wanted = 2 if kind == "tokens" and claims else 1
    buffers = frame.buffers[used : used + wanted]
    if len(buffers) != wanted:
        raise WireError("a delivery without its completion")
    completion = _text(buffers[0], limits) if kind == "text" else _tokens(buffers, limits)
    made = Delivery(problem, _count(slot), node, _count(seed), policy, finish, completion)
    return made, used + wanted


def _text(buffer: memoryview, limits: Limits) -> Text:
    try:
        text = bytes(buffer).decode("utf-8")
    except UnicodeDecodeError as error:
        raise WireError("a completion that is not UTF-8") from error
    if len(text) > limits.characters:
        raise WireError(f"a completion of {len(text)} characters; at most {limits.characters}")
    return Text(text)


def _tokens(buffers: Sequence[memoryview], limits: Limits) -> Tokens:
    if len(buffers[0]) % 4 or not 1 <= len(buffers[0]) // 4 <= limits.tokens:
        raise WireError(f"a completion of {len(buffers[0])} bytes; 1 to {limits.tokens} tokens are due")
    ids = np.frombuffer(buffers[0], "<u4")
    if int(ids.max()) >= limits.vocabulary:
        raise WireError(f"token {int(ids.max())} is not in the vocabulary")
    if len(buffers) == 1:
        return Tokens(tuple(ids.tolist()))
    if len(buffers[1]) != len(buffers[0]):
        raise WireError("log-probs of another length than the tokens")
    logp = np.frombuffer(buffers[1], "<f4")
    if not np.isfinite(logp).all():
        raise WireError("log-probs that are not finite")
    return Tokens(tuple(ids.tolist()), logp)


def _count(value: int) -> int:
    if not 0 <= value < 1 << 63:
        raise WireError("a number out of range")
    return value
