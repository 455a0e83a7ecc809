"""Problems that the server keeps for itself, so that it can tell what an update is worth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hanse.randomness import derive_seed
from hanse.tasks.problem import Problem


def key_of(problem: Problem) -> str:
    """The same for problems that ask for the same: by their operands in order of size where there are any."""
    operands = problem.metadata.get("operands")
    if isinstance(operands, list) and all(isinstance(one, int) for one in operands):
        return "+".join(map(str, sorted(operands)))
    return problem.id


def server_owned(problems: Sequence[Problem], count: int, column: str) -> list[Problem]:
    """`count` of the problems (fewer if there are fewer), as many of each value of `column` as go, no two of
    them alike: those with the smallest hashes, the same ones whatever the recipe's seed. In their order."""
    by_value: dict[Any, dict[str, Problem]] = {}
    for problem in problems:
        by_value.setdefault(str(problem.metadata.get(column)), {}).setdefault(key_of(problem), problem)
    ranked = [_ranked(by_value[value]) for value in sorted(by_value)]
    turns = sorted((place, row) for row, values in enumerate(ranked) for place in range(len(values)))
    chosen = {ranked[row][place].id for place, row in turns[:count]}
    return [problem for problem in problems if problem.id in chosen]


def without(problems: Iterable[Problem], owned: Iterable[Problem]) -> list[Problem]:
    """The problems that are none of `owned`, nor like one of them."""
    keys = {key_of(problem) for problem in owned}
    return [problem for problem in problems if key_of(problem) not in keys]


def _ranked(alike: dict[str, Problem]) -> list[Problem]:
    order = sorted(alike, key=lambda key: (derive_seed("server", key), key))
    return [alike[key] for key in order]
