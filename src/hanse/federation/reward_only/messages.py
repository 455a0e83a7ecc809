"""What server and clients say to one another where only scores return.

Quiz -> Answers, once; Candidates -> Judgement, every step. What the server asks is JSON; what clients reply
are raw buffers: lengths and text, or float32 scores.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hanse.federation.wire.frame import Frame, WireError, decode_frame, encode_frame
from hanse.federation.wire.frame import field as read
from hanse.tasks.problem import Prompt

MAX_BYTES = 64 << 20
"""Of a message to a client."""
MAX_QUESTIONS = 1 << 16
MAX_TEXT = 1 << 16
"""Characters of an answer: longer ones are cut by the honest, and refused from others."""
_HEADER = 1 << 12
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Quiz:
    """Questions that every client answers, to be known by its answers."""

    number: int
    prompts: tuple[Prompt, ...]

    def to_bytes(self) -> bytes:
        return encode_frame("quiz", {"number": self.number}, [_dumped(list(self.prompts))])

    @classmethod
    def from_bytes(cls, data: bytes) -> Quiz:
        """Raises WireError."""
        frame = decode_frame(data, kind="quiz", max_bytes=MAX_BYTES, max_header=_HEADER)
        return cls(_number(frame), _prompts(_loaded(frame)))


@dataclass(frozen=True)
class Answers:
    """A client's answers to a quiz, in its order."""

    number: int
    client: int
    texts: tuple[str, ...]

    def to_bytes(self) -> bytes:
        texts = [text[:MAX_TEXT].encode("utf-8", "replace") for text in self.texts]
        sizes = np.array([len(text) for text in texts], dtype="<u4")
        fields = {"number": self.number, "client": self.client}
        return encode_frame("answers", fields, [sizes.tobytes(), b"".join(texts)])

    @classmethod
    def from_bytes(cls, data: bytes, quiz: Quiz, client: int) -> Answers:
        """Raises WireError for anything but this client's answers to this quiz."""
        limit = 2 * _HEADER + len(quiz.prompts) * (4 * MAX_TEXT + 4)
        frame = decode_frame(data, kind="answers", max_bytes=min(limit, MAX_BYTES), max_header=_HEADER)
        _expect(frame, quiz.number, client)
        return cls(quiz.number, client, _cut(frame, len(quiz.prompts)))


@dataclass(frozen=True)
class Candidates:
    """Questions with candidate answers, G each, for a client to score."""

    number: int
    prompts: tuple[Prompt, ...]
    texts_PG: tuple[tuple[str, ...], ...]

    @property
    def count(self) -> int:
        return sum(map(len, self.texts_PG))

    def to_bytes(self) -> bytes:
        texts_PG = [[text[:MAX_TEXT] for text in texts] for texts in self.texts_PG]
        document = [list(self.prompts), texts_PG]
        return encode_frame("candidates", {"number": self.number}, [_dumped(document)])

    @classmethod
    def from_bytes(cls, data: bytes) -> Candidates:
        """Raises WireError."""
        frame = decode_frame(data, kind="candidates", max_bytes=MAX_BYTES, max_header=_HEADER)
        document = _loaded(frame)
        if not isinstance(document, list) or len(document) != 2 or not isinstance(document[1], list):
            raise WireError("candidates are not questions and texts")
        prompts, sizes = _prompts(document[0]), {len(row) for row in document[1] if isinstance(row, list)}
        if len(document[1]) != len(prompts) or len(sizes) != 1 or max(sizes) > MAX_QUESTIONS:
            raise WireError("candidates are not as many for each question")
        return cls(_number(frame), prompts, tuple(_texts(row, max(sizes)) for row in document[1]))


@dataclass(frozen=True)
class Judgement:
    """A client's scores of candidates, in their order; NaN where it has none to give. Shape (P * G,)."""

    number: int
    client: int
    scores_N: FloatArray

    def to_bytes(self) -> bytes:
        """Five bytes a candidate: a score, and whether there is one."""
        known = np.isfinite(self.scores_N)
        values = np.where(known, self.scores_N, 0.0).astype("<f4")
        fields = {"number": self.number, "client": self.client}
        return encode_frame("judgement", fields, [values.tobytes(), known.astype(np.uint8).tobytes()])

    @classmethod
    def from_bytes(cls, data: bytes, asked: Candidates, client: int, low: float, high: float) -> Judgement:
        """Raises WireError for anything but this client's scores of these candidates, within low and high."""
        count = asked.count
        frame = decode_frame(data, kind="judgement", max_bytes=2 * _HEADER + 5 * count, max_header=_HEADER)
        _expect(frame, asked.number, client)
        if [len(buffer) for buffer in frame.buffers] != [4 * count, count]:
            raise WireError(f"scores are not of {count} candidates")
        scores = np.frombuffer(frame.buffers[0], "<f4").astype(np.float64)
        known = np.frombuffer(frame.buffers[1], np.uint8)
        if known.size and known.max() > 1:
            raise WireError("neither known nor unknown")
        inside = (scores >= np.float32(low)) & (scores <= np.float32(high))  # NaN is neither
        if not inside[known == 1].all():
            raise WireError(f"a score is outside {low:g} to {high:g} (reward_only.low, high)")
        return cls(asked.number, client, np.where(known == 1, scores, np.nan))


def _expect(frame: Frame, number: int, client: int) -> None:
    if (read(frame, "number", int), read(frame, "client", int)) != (number, client):
        raise WireError("an answer to another question, or another client's")


def _number(frame: Frame) -> int:
    value: int = read(frame, "number", int)
    if not 0 <= value < 2**40:
        raise WireError("a count is out of range")
    return value


def _dumped(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")


def _loaded(frame: Frame) -> Any:
    if len(frame.buffers) != 1:
        raise WireError(f"{len(frame.buffers)} buffers; expected 1")
    try:
        return json.loads(bytes(frame.buffers[0]).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise WireError("texts are not JSON") from error


def _cut(frame: Frame, count: int) -> tuple[str, ...]:
    """So many texts, from their sizes in bytes and all of them in a row."""
    if len(frame.buffers) != 2 or len(frame.buffers[0]) != 4 * count:
        raise WireError(f"not {count} sizes, and texts")
    ends = np.frombuffer(frame.buffers[0], "<u4").astype(np.int64).cumsum().tolist()
    data = bytes(frame.buffers[1])
    if ends[-1] != len(data):
        raise WireError("texts are not as long as their sizes say")
    try:
        texts = [data[a:b].decode("utf-8") for a, b in zip([0, *ends], ends, strict=False)]
    except UnicodeDecodeError as error:
        raise WireError("texts are not UTF-8") from error
    return _texts(texts, count)


def _texts(document: Any, count: int) -> tuple[str, ...]:
    if not isinstance(document, list) or len(document) != count:
        raise WireError(f"not a list of {count} texts")
    if not all(type(text) is str and len(text) <= MAX_TEXT for text in document):
        raise WireError(f"not texts of at most {MAX_TEXT} characters")
    return tuple(document)


def _prompts(document: Any) -> tuple[Prompt, ...]:
    if not isinstance(document, list) or not 1 <= len(document) <= MAX_QUESTIONS:
        raise WireError("not a list of questions")
    return tuple(_prompt(one) for one in document)


def _prompt(one: Any) -> Prompt:
    if isinstance(one, str):
        return one
    good: Sequence[Any] = one if isinstance(one, list) else ()
    if not good or not all(isinstance(m, dict) and all(isinstance(v, str) for v in m.values()) for m in good):
        raise WireError("a question is neither text nor messages")
    return tuple(good)
