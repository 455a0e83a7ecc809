"""What clients show one another: token ids of answers to a round's public problems, in the round's order.

Shown -> Pool, by way of the server. No prompt travels, as every party draws the same problems; no reward and
no log-prob either, as nobody would believe them: to show an answer is to say that it is correct.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from hanse.federation.public.swap import POOLED, Ids
from hanse.federation.wire.frame import Frame, WireError, count, decode_frame, encode_frame
from hanse.recipe.public import PublicSpec

MOST_TOKENS = 1 << 20
"""Of an answer."""
_HEADER = 1 << 12
_NARROW = 1 << 16
"""Ids below this travel in two bytes, if all of a message are."""
Answers = tuple[tuple[Ids, ...], ...]
"""Of each problem in turn, shape (P, any)."""


@dataclass(frozen=True)
class Limits:
    """What an honest message holds: answers to `problems` problems, `most` a problem, `tokens` an answer."""

    problems: int
    most: int
    tokens: int

    @classmethod
    def of_shown(cls, spec: PublicSpec, longest: int) -> Limits:
        return cls(spec.per_round, spec.most, min(longest, MOST_TOKENS))

    @classmethod
    def of_pool(cls, spec: PublicSpec, longest: int) -> Limits:
        return cls(spec.per_round, POOLED * spec.most, min(longest, MOST_TOKENS))

    @property
    def bytes(self) -> int:
        return 2 * _HEADER + self.problems * (8 + self.most * (8 + 4 * self.tokens))


@dataclass(frozen=True)
class Shown:
    """A client's correct answers. `right_P`: how many of each group are, of which `answers_P` has some."""

    round: int
    client: int
    right_P: tuple[int, ...]
    answers_P: Answers

    def to_bytes(self) -> bytes:
        fields = {"round": self.round, "client": self.client}
        return encode_frame("shown", fields, [_counts(self.right_P), *_packed(self.answers_P)])

    @classmethod
    def from_bytes(cls, data: bytes, limits: Limits, size: int) -> Shown:
        """Raises WireError. `size`: of a group."""
        frame = decode_frame(data, kind="shown", max_bytes=limits.bytes, max_header=_HEADER)
        _expect(frame, 4)
        right = _read_counts(frame.buffers[0], limits.problems, 0, size)
        answers = _unpacked(frame.buffers[1:], limits)
        if any(len(own) > n for own, n in zip(answers, right.tolist(), strict=True)):
            raise WireError("shows more answers than it says are correct")
        return cls(count(frame, "round"), count(frame, "client"), tuple(right.tolist()), answers)


@dataclass(frozen=True)
class Pool:
    """What `client` may take of its peers' answers, and whose they are, `peers_N`: in order of problems."""

    round: int
    client: int
    answers_P: Answers
    peers_N: tuple[int, ...]

    @property
    def offers_P(self) -> list[list[tuple[int, Ids]]]:
        """Answers with their peers, of each problem."""
        peers = iter(self.peers_N)
        return [[(next(peers), ids) for ids in own] for own in self.answers_P]

    def to_bytes(self) -> bytes:
        fields = {"round": self.round, "client": self.client}
        return encode_frame("pool", fields, [_counts(self.peers_N), *_packed(self.answers_P)])

    @classmethod
    def from_bytes(cls, data: bytes, limits: Limits) -> Pool:
        """Raises WireError."""
        frame = decode_frame(data, kind="pool", max_bytes=limits.bytes, max_header=_HEADER)
        _expect(frame, 4)
        answers = _unpacked(frame.buffers[1:], limits)
        peers = _read_counts(frame.buffers[0], sum(map(len, answers)), 0, 2**32 - 1)
        return cls(count(frame, "round"), count(frame, "client"), answers, tuple(peers.tolist()))


def _packed(answers_P: Answers) -> list[bytes]:
    """Answers a problem, tokens an answer, and all tokens one after the other."""
    flat = [ids for own in answers_P for ids in own]
    tokens = np.array([token for ids in flat for token in ids], dtype="<u4")
    narrow = tokens.size == 0 or int(tokens.max()) < _NARROW
    lengths = _counts([len(ids) for ids in flat])
    return [
        _counts([len(own) for own in answers_P]),
        lengths,
        tokens.astype("<u2" if narrow else "<u4").tobytes(),
    ]


def _unpacked(buffers: Sequence[memoryview], limits: Limits) -> Answers:
    """Raises WireError for anything else; ids may still be none of the receiver's vocabulary."""
    counts = _read_counts(buffers[0], limits.problems, 0, limits.most)
    lengths = _read_counts(buffers[1], int(counts.sum()), 1, limits.tokens)
    total = int(lengths.sum())
    widths = {2 * total: "<u2", 4 * total: "<u4"}
    if len(buffers[2]) not in widths:
        raise WireError(f"{len(buffers[2])} bytes for {total} tokens")
    tokens = np.frombuffer(buffers[2], widths[len(buffers[2])]).tolist()
    ends = [0, *lengths.cumsum().tolist()]
    flat = [tuple(tokens[start:stop]) for start, stop in pairwise(ends)]
    edges = [0, *counts.cumsum().tolist()]
    return tuple(tuple(flat[start:stop]) for start, stop in pairwise(edges))


def _counts(values: Sequence[int]) -> bytes:
    return np.asarray(values, dtype="<u4").tobytes()


def _read_counts(buffer: memoryview, size: int, low: int, high: int) -> npt.NDArray[np.int64]:
    if len(buffer) != 4 * size:
        raise WireError(f"{len(buffer)} bytes for {size} counts")
    values = np.frombuffer(buffer, "<u4").astype(np.int64)
    if values.size and not low <= values.min() <= values.max() <= high:
        raise WireError(f"a count outside {low} to {high}")
    return values


def _expect(frame: Frame, buffers: int) -> None:
    if len(frame.buffers) != buffers:
        raise WireError(f"{len(frame.buffers)} buffers; expected {buffers}")
