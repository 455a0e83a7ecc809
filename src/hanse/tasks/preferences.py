"""Preferences from a file: pairs of completions, of which somebody chose one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from hanse.errors import RecipeError
from hanse.recipe.preferences import PreferencesTask
from hanse.tasks.files import read_rows
from hanse.tasks.listed import ListedTask, gather, refuse_empty
from hanse.tasks.problem import Problem, Split, split_of
from hanse.tasks.rows import as_chat

MOST_CHARACTERS = 1 << 20
"""Of a prompt or a completion."""


def build_preferences(spec: PreferencesTask) -> ListedTask:
    """Metadata of each pair: `chosen`, `rejected`, and all columns of its row but the prompt.

    The same pair may stand there several times, labelled by different people, or in opposite ways; pairs with
    one prompt are all in one split. Raises RecipeError for an unreadable file and rows that are no pairs.
    """
    splits = gather(_problems(spec))
    refuse_empty(splits, spec.path)
    return ListedTask("preferences", (), splits)


def read_pairs(path: str, field: str) -> list[Problem]:
    """All pairs of a file in the default columns. Raises RecipeError about `field`."""
    spec = PreferencesTask(type="preferences", path=path)
    pairs = [problem for _, problem in _problems(spec, field)]
    if not pairs:
        raise RecipeError(field, f"{path} has no pair in it.", "Name a file with one pair a row.")
    return pairs


def _problems(spec: PreferencesTask, field: str = "task.path") -> Iterator[tuple[Split, Problem]]:
    for number, (where, row) in enumerate(islice(read_rows("jsonl", spec.path, field), spec.limit)):
        prompt = _text(row, spec.prompt, "prompt", where, field)
        labels = {
            name: _text(row, getattr(spec, name), name, where, field) for name in ("chosen", "rejected")
        }
        if labels["chosen"] == labels["rejected"]:
            problem = f"{where} prefers a completion to itself."
            raise RecipeError(field, problem, "Leave out pairs of equal completions.")
        others = {k: v for k, v in row.items() if k not in (spec.prompt, spec.chosen, spec.rejected)}
        split = split_of(prompt, spec.held_out_fraction, spec.validation_fraction)
        text = json.dumps([number, prompt, labels], sort_keys=True)
        name = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        yield split, Problem(name, as_chat(prompt, None, spec.chat), None, {**others, **labels})


def _text(row: Mapping[str, Any], column: str, name: str, where: str, field: str) -> str:
    """A column that holds text, or messages of which the last one counts."""
    value = row.get(column)
    match value:
        case [*_, {"content": str(content)}]:
            value = content
    if not isinstance(value, str):
        problem = f"{where} has no text in column {column!r}."
        remedy = f"Name the column in task.{name}; each row needs a prompt, a chosen and a rejected one."
        raise RecipeError(field, problem, remedy)
    if len(value) > MOST_CHARACTERS:
        problem = f"{where}, column {column!r} has {len(value):,} characters."
        raise RecipeError(field, problem, f"Cut it to at most {MOST_CHARACTERS:,}.")
    return value
