"""Guesses about a user's own rows: which column asks, which answers, which could tell owners apart."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hanse.errors import RecipeError
from hanse.tasks.files import refuse_surrogates

Row = Mapping[str, Any]

_PROMPTS = ("prompt", "question", "problem", "instruction", "query", "input", "text")
_ANSWERS = ("answer", "expected_answer", "solution", "target", "label", "output", "response", "completion")
_OWNERS = ("owner", "client", "site", "level", "difficulty", "subject", "topic", "category", "source", "type")
_NUMBER = re.compile(r"\$?-?[\d,]*\.?\d+%?")
_MOST_ROWS = 20_000


@dataclass(frozen=True)
class Guess:
    """What a file's rows look like. `owners`: candidate columns with their values' counts, best first."""

    rows: int
    columns: tuple[str, ...]
    prompt: str
    answer: str
    answer_format: Literal["plain", "gsm8k", "boxed"]
    numeric: bool
    chat: bool
    owners: Mapping[str, Mapping[str, int]]


def read_rows(path: Path) -> list[Row]:
    """The first rows of a JSONL file.

    Raises RecipeError for a file that cannot be read, and for a line that is not a JSON object.
    """
    rows: list[Row] = []
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if line.strip() and len(rows) < _MOST_ROWS:
                    rows.append(_row(path, number, line.strip()))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise RecipeError(str(path), f"cannot be read ({reason}).", "Give a JSONL file in UTF-8.") from None
    if not rows:
        raise RecipeError(str(path), "holds no rows.", 'Give one JSON object a line, as {"question": …}.')
    return rows


def _row(path: Path, number: int, line: str) -> Row:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        problem = f"line {number} is not JSON ({error.msg}, column {error.colno})."
        raise RecipeError(str(path), problem, "Give one JSON object a line.") from None
    if not isinstance(row, dict):
        problem = f"line {number} is a JSON {type(row).__name__}, not an object."
        raise RecipeError(str(path), problem, 'Give one JSON object a line, as {"question": …}.')
    refuse_surrogates(line, row, f"line {number}", str(path))
    return row


def guess(path: Path, rows: Sequence[Row], prompt: str | None = None, answer: str | None = None) -> Guess:
    """Guess the columns' meanings from their names, then from their values; told ones are taken.

    Raises RecipeError where no column could be the prompt, or none the answer.
    """
    columns = tuple(dict.fromkeys(key for row in rows for key in row))
    for option, column in (("--prompt", prompt), ("--answer", answer)):
        if column is not None and column not in columns:
            raise RecipeError(option, f"there is no column {column!r}.", f"Columns: {', '.join(columns)}.")
    prompt = prompt or _guess_prompt(rows, [c for c in columns if c != answer])
    answer = answer or _guess_answer(rows, [c for c in columns if c != prompt])
    if prompt is None or answer is None:
        missing = "prompt" if prompt is None else "answer"
        problem = f"no column looks like the {missing}; there are: {', '.join(columns)}."
        raise RecipeError(str(path), problem, f"Say which one it is: --{missing} COLUMN.")
    values = [str(row[answer]) for row in rows if row.get(answer) is not None]
    return Guess(
        rows=len(rows),
        columns=columns,
        prompt=prompt,
        answer=answer,
        answer_format=_format(values),
        numeric=_mostly(values, lambda v: _NUMBER.fullmatch(v.strip()) is not None),
        chat=all(isinstance(row.get(prompt), str) for row in rows),
        owners=_owners(rows, [c for c in columns if c not in (prompt, answer)]),
    )


def _guess_prompt(rows: Sequence[Row], columns: Sequence[str]) -> str | None:
    texts = [c for c in columns if _share(rows, c, _is_prompt) > 0.9]
    return _by_name(texts, _PROMPTS) or max(texts, key=lambda c: _length(rows, c), default=None)


def _guess_answer(rows: Sequence[Row], columns: Sequence[str]) -> str | None:
    return _by_name([c for c in columns if _share(rows, c, _is_scalar) > 0.9], _ANSWERS)


def _format(values: Sequence[str]) -> Literal["plain", "gsm8k", "boxed"]:
    if _mostly(values, lambda v: "####" in v):
        return "gsm8k"
    return "boxed" if _mostly(values, lambda v: "\\boxed" in v) else "plain"


def _mostly(values: Sequence[str], test: Callable[[str], bool]) -> bool:
    return sum(map(test, values)) > 0.9 * len(values)


def _owners(rows: Sequence[Row], columns: Sequence[str]) -> dict[str, dict[str, int]]:
    """Columns with 2 to 50 values that each occur at least twice: named ones first, then fewest values."""
    found = {}
    for column in columns:
        values = [row.get(column) for row in rows]
        if not all(isinstance(v, str | int) for v in values):
            continue
        counts = Counter(map(str, values))
        if 2 <= len(counts) <= 50 and min(counts.values()) >= 2:
            found[column] = dict(counts)
    ranked = sorted(found, key=lambda c: (_rank(c, _OWNERS), len(found[c])))
    return {column: found[column] for column in ranked}


def _rank(column: str, names: Sequence[str]) -> int:
    lowered = column.lower()
    return names.index(lowered) if lowered in names else len(names)


def _by_name(columns: Sequence[str], names: Sequence[str]) -> str | None:
    best = min(columns, key=lambda c: _rank(c, names), default=None)
    return best if best is not None and _rank(best, names) < len(names) else None


def _share(rows: Sequence[Row], column: str, test: Callable[[Any], bool]) -> float:
    return sum(test(row.get(column)) for row in rows) / len(rows)


def _is_prompt(value: Any) -> bool:
    messages = isinstance(value, list) and all(isinstance(m, dict) and "role" in m for m in value)
    return bool(value) and (isinstance(value, str) or messages)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _length(rows: Sequence[Row], column: str) -> int:
    return sum(len(str(row.get(column))) for row in rows)
