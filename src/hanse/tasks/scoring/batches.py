"""Problems and completions in the form in which reward functions take them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from hanse.tasks.problem import Problem
from hanse.tasks.rewards.batch import RESERVED, Batch


def make_batch(
    problems_N: Sequence[Problem], completions_N: Sequence[str], ids_N: Sequence[list[int]] | None
) -> Batch:
    """Raises ValueError unless there is one completion (and one list of ids) a problem."""
    if len(completions_N) != len(problems_N) or (ids_N is not None and len(ids_N) != len(problems_N)):
        raise ValueError("problems, completions and completion ids differ in number")
    distinct = {id(problem): problem for problem in problems_N}.values()
    names = dict.fromkeys(name for problem in distinct for name in problem.metadata)
    columns: dict[str, list[Any]] = {
        name: [problem.metadata.get(name) for problem in problems_N] for name in names if name not in RESERVED
    }
    columns["answer"] = [problem.answer for problem in problems_N]
    prompts: list[Any] = []
    completions: list[Any] = []
    for problem, text in zip(problems_N, completions_N, strict=True):
        if isinstance(problem.prompt, str):
            prompts.append(problem.prompt)
            completions.append(text)
        else:
            prompts.append([dict(message) for message in problem.prompt])
            completions.append([{"role": "assistant", "content": text}])
    return Batch(prompts, completions, None if ids_N is None else list(ids_N), columns)


def groups_of(problems_N: Sequence[Problem], group_size: int | None = None) -> list[range]:
    """Groups of `group_size` rows; where none is given, runs of neighbouring rows with the same problem.

    Raises ValueError where the rows are no whole number of groups.
    """
    if group_size is not None:
        if len(problems_N) % group_size:
            raise ValueError(f"{len(problems_N)} completions are not in groups of {group_size}")
        return [range(i, i + group_size) for i in range(0, len(problems_N), group_size)]
    groups, start = [], 0
    for _, run in groupby(problems_N, key=lambda problem: problem.id):
        stop = start + sum(1 for _ in run)
        groups.append(range(start, stop))
        start = stop
    return groups
