"""A message of ours in one of Flower's: the frame as one array of bytes, and beside it a few words.

Down go the run's token and the frame; up come the frame, or why there is none, and rows of metrics. Whatever
comes from the other end is checked before it is believed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from hanse.federation.client import Rows
from hanse.runtime.flower.metrics import read_rows, written_rows

EXCHANGE, HELLO, FAREWELL = "train.exchange", "query.hello", "query.farewell"
"""Message types: answer a frame; say who you are; the run is over, or goes on without you."""
MAX_REASON = 300
_FRAME, _WORDS, _STYPE = "frame", "hanse", "hanse.frame"
_TOKEN = re.compile(r"[0-9a-f]{32}")


class EnvelopeError(ValueError):
    """Content that no honest party of this version sends."""


@dataclass(frozen=True)
class Answer:
    """What a client answers: a frame, or in `refused` why there is none; and its metrics."""

    frame: bytes = b""
    rows: Rows = field(default_factory=list)
    refused: str = ""


def ask(frame: bytes, token: str) -> RecordDict:
    """A server's message to a client."""
    return _content({"token": token}, frame)


def read_asked(content: RecordDict) -> tuple[bytes, str]:
    """Frame and token. Raises EnvelopeError; the frame's reader bounds and checks it."""
    token = _word(content, "token")
    if not _TOKEN.fullmatch(token):
        raise EnvelopeError("the run's token is not one")
    return _frame(content), token


def read_farewell(content: RecordDict) -> str:
    """Why the server does without this client; nothing where the run is over."""
    try:
        return plain(bytes(_frame(content)[: 4 * MAX_REASON]).decode(errors="replace"))
    except EnvelopeError:
        return ""


def answered(answer: Answer) -> RecordDict:
    """A client's message to its server."""
    if answer.refused:
        return _content({"refused": answer.refused[:MAX_REASON]})
    return _content({"rows": written_rows(answer.rows)}, answer.frame)


def read_answer(content: RecordDict, *, max_bytes: int) -> Answer:
    """Raises EnvelopeError."""
    if "refused" in _words(content):
        return Answer(refused=plain(_word(content, "refused")))
    frame = _frame(content)
    if len(frame) > max_bytes:
        raise EnvelopeError(f"{len(frame)} bytes; at most {max_bytes} are honest")
    try:
        return Answer(frame, read_rows(_word(content, "rows")))
    except ValueError as error:
        raise EnvelopeError(str(error)) from error


def introduce(words: dict[str, str | int]) -> RecordDict:
    """A client says who it is."""
    return RecordDict({_WORDS: ConfigRecord(dict(words))})


def read_words(content: RecordDict) -> dict[str, object]:
    """Whatever the other end says of itself. Raises EnvelopeError."""
    return _words(content)


def plain(text: str) -> str:
    """Another party's words: one line, printable, short."""
    return "".join(c if c.isprintable() else " " for c in text[:MAX_REASON])


def _content(words: dict[str, str], frame: bytes | None = None) -> RecordDict:
    records: dict[str, ConfigRecord | ArrayRecord] = {_WORDS: ConfigRecord(dict(words))}
    if frame is not None:
        array = Array(dtype="uint8", shape=(len(frame),), stype=_STYPE, data=frame)
        records[_FRAME] = ArrayRecord({_FRAME: array})
    return RecordDict(dict(records))


def _words(content: RecordDict) -> dict[str, object]:
    record = content.get(_WORDS)
    if not isinstance(record, ConfigRecord):
        raise EnvelopeError("no words of ours in it")
    return dict(record)


def _word(content: RecordDict, name: str) -> str:
    value = _words(content).get(name)
    if not isinstance(value, str):
        raise EnvelopeError(f"no {name} in it")
    return value


def _frame(content: RecordDict) -> bytes:
    record = content.get(_FRAME)
    array = record.get(_FRAME) if isinstance(record, ArrayRecord) else None
    if array is None or array.stype != _STYPE:
        raise EnvelopeError("no frame in it")
    return array.data
