"""From the rows of a data set to problems."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from hanse.errors import RecipeError
from hanse.recipe.tasks import FileTask, HuggingFaceTask, RewardSpec
from hanse.tasks.answers import extract_answer
from hanse.tasks.listed import ListedTask, gather, refuse_empty
from hanse.tasks.problem import Message, Problem, Prompt, Split, split_of

RowTask = FileTask | HuggingFaceTask
Row = Mapping[str, Any]
Rows = Iterable[tuple[str, Row]]
"""Rows with the words that say where each one stands ("train.jsonl, line 7")."""


def task_from_rows(spec: RowTask, rows: Rows, held_out_rows: Rows | None, held_out_field: str) -> ListedTask:
    """Split the problems in `rows` by a hash of their prompts; `held_out_rows`, if given, are held out whole.

    Of equal prompts the first is kept, and none that `held_out_rows` has, so no prompt is in two splits.
    `spec.limit` applies to each source of rows. Raises RecipeError where a row does not fit the recipe.
    """
    assigned: dict[str, tuple[Split, Problem]] = {}
    for problem in _problems(spec, held_out_rows or ()):
        assigned.setdefault(problem.id, ("held_out", problem))
    held_out = {split_key(problem.prompt) for _, problem in assigned.values()}
    held_out_fraction = spec.held_out_fraction if held_out_rows is None else 0.0
    for problem in _problems(spec, rows):
        key = split_key(problem.prompt)
        if key not in held_out:
            split = split_of(key, held_out_fraction, spec.validation_fraction)
            assigned.setdefault(problem.id, (split, problem))
    splits = gather(assigned.values())
    refuse_empty(splits, spec.path, held_out_field)
    return ListedTask(spec.type, _usual_rewards(spec), splits)


def held_out_from_rows(spec: RowTask, rows: Rows, field: str) -> ListedTask:
    """A task of held-out problems alone. Raises RecipeError, about `field`, where there is none."""
    found = {problem.id: problem for problem in reversed(list(_problems(spec, rows)))}
    if not found:
        raise RecipeError(field, "the file has no problem in it.", "Name a file with one problem a row.")
    splits = gather(("held_out", problem) for problem in reversed(found.values()))
    return ListedTask(spec.type, _usual_rewards(spec), splits)


def _usual_rewards(spec: RowTask) -> tuple[RewardSpec, ...]:
    return (RewardSpec(name="exact" if spec.answer_format == "plain" else "math"),)


def _problems(spec: RowTask, rows: Rows) -> Iterator[Problem]:
    for where, row in islice(rows, spec.limit):
        prompt = _prompt(spec, where, row)
        used = {spec.answer} if spec.answer == "answer" else set()
        if spec.template is None:
            used.add(spec.prompt)
        metadata = {name: value for name, value in row.items() if name not in used}
        yield Problem(problem_id(prompt), prompt, _answer(spec, where, row), metadata)


def problem_id(prompt: Prompt) -> str:
    """A name that depends on the prompt alone."""
    text = prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def split_key(prompt: Prompt) -> str:
    """The text whose hash decides the split: without system messages, so that a new one moves no problem."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(message["content"] for message in prompt if message["role"] != "system")


def as_chat(text: str, system_prompt: str | None, chat: bool) -> Prompt:
    """`text` as one user message after the system prompt, or unchanged where `chat` is false.

    Raises RecipeError for a system prompt without chat.
    """
    if not chat:
        if system_prompt is not None:
            raise RecipeError(
                "task.system_prompt",
                "a system prompt needs chat messages, and these prompts are plain text.",
                "Set task.chat = true, or put the instructions into the prompt.",
            )
        return text
    system = [] if system_prompt is None else [{"role": "system", "content": system_prompt}]
    return [*system, {"role": "user", "content": text}]


def _prompt(spec: RowTask, where: str, row: Row) -> Prompt:
    if spec.template is not None:
        return as_chat(_fill(spec.template, where, row), spec.system_prompt, spec.chat)
    value = _column(row, spec.prompt, "task.prompt", where)
    if isinstance(value, str):
        return as_chat(value, spec.system_prompt, spec.chat)
    messages = _messages(value, f"{where}, column {spec.prompt!r}")
    if spec.system_prompt is None or any(message["role"] == "system" for message in messages):
        return messages
    return [{"role": "system", "content": spec.system_prompt}, *messages]


def _fill(template: str, where: str, row: Row) -> str:
    try:
        return template.format_map(dict(row))
    except KeyError as error:
        problem = f"{where} has no column {error.args[0]!r}; it has {_names(row)}."
        raise RecipeError("task.template", problem, "Use only names of columns between braces.") from error
    except (ValueError, IndexError, AttributeError, TypeError) as error:
        problem = f"it cannot be filled in for {where}: {error}."
        raise RecipeError("task.template", problem, 'Write "{column}"; double literal braces.') from error


def _messages(value: Any, where: str) -> Sequence[Message]:
    match value:
        case [{"role": str(), "content": str()}, *_] if all(map(_is_message, value)):
            return [{"role": message["role"], "content": message["content"]} for message in value]
    raise RecipeError(
        "task.prompt",
        f"{where} holds {_shown(value)}, which is neither text nor a list of chat messages.",
        'A prompt is a string or a list of {"role": …, "content": …}; task.template builds one.',
    )


def _is_message(value: object) -> bool:
    match value:
        case {"role": str(), "content": str()}:
            return True
    return False


def _answer(spec: RowTask, where: str, row: Row) -> str | None:
    if not spec.answer:
        return None
    value = _column(row, spec.answer, "task.answer", where, ' Set it to "" if no reward needs an answer.')
    if value is None:
        return None
    if not isinstance(value, str | int | float):
        raise RecipeError(
            "task.answer",
            f"{where}, column {spec.answer!r} holds {_shown(value)}, which is neither text nor a number.",
            "Name a column with one answer a row.",
        )
    answer = extract_answer(str(value), spec.answer_format)
    if answer is None:
        mark = "#### …" if spec.answer_format == "gsm8k" else "\\boxed{…}"
        problem = f"{where}, column {spec.answer!r} has no {mark} in it: {_shown(value)}."
        raise RecipeError("task.answer_format", problem, 'Use "plain" if the column is the answer itself.')
    return answer


def _column(row: Row, name: str, field: str, where: str, otherwise: str = "") -> Any:
    if name not in row:
        problem = f"{where} has no column {name!r}; it has {_names(row)}."
        raise RecipeError(field, problem, f"Name one of them.{otherwise}")
    return row[name]


def _names(row: Row) -> str:
    return ", ".join(repr(name) for name in row) or "none"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
