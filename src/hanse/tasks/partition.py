"""Who owns which training problems."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from hanse.errors import RecipeError
from hanse.recipe.model import PartitionSpec
from hanse.tasks.problem import Problem


@dataclass(frozen=True)
class ClientData:
    """The problems of one client, in the task's order."""

    name: str
    problems: tuple[Problem, ...]


class PartitionRow(TypedDict):
    """One client in a table: its name, how many problems it holds, and how many of each column value."""

    client: str
    problems: int
    counts: dict[str, int]


def build_partition(spec: PartitionSpec, problems: Sequence[Problem], seed: int) -> list[ClientData]:
    """Every problem to exactly one client, by a generator of its own that depends on `seed` alone.

    column: one client a distinct value, in sorted order, or `clients_per_value` with equal shares of it.
    dirichlet: each value's problems in proportions
    drawn from Dirichlet(alpha) (1909.06335). size-skewed: sizes as k^-alpha. iid: equal shares. own: none
    is seen here, each client brings its problems.

    Raises RecipeError for a column that does not exist, a wrong number of clients, and empty clients.
    """
    if spec.by == "own":
        return [ClientData(name, ()) for name in spec.own_names]
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0x7061_7274]))
    if spec.by == "column":
        names, members = _by_column(spec, problems, rng)
    else:
        names = [f"client-{k + 1}" for k in range(spec.clients)]
        members = _by_chance(spec, problems, rng)
    _refuse_empty(spec, names, members, len(problems))
    return [
        ClientData(name, tuple(problems[i] for i in sorted(rows)))
        for name, rows in zip(names, members, strict=True)
    ]


def partition_table(clients: Sequence[ClientData], column: str) -> list[PartitionRow]:
    """What each client holds, counted by `column` (problems without it are left out of `counts`)."""
    table: list[PartitionRow] = []
    for client in clients:
        values = [p.metadata[column] for p in client.problems if column in p.metadata]
        counts = Counter(str(value) for value in sorted(values, key=_order))
        table.append({"client": client.name, "problems": len(client.problems), "counts": dict(counts)})
    return table


def _by_column(
    spec: PartitionSpec, problems: Sequence[Problem], rng: np.random.Generator
) -> tuple[list[str], list[list[int]]]:
    by_value, each = _values(spec, problems), spec.clients_per_value
    if len(by_value) * each != spec.clients:
        shown = ", ".join(repr(value) for value in list(by_value)[:10])
        times = "" if each == 1 else f" times clients_per_value = {each}"
        raise RecipeError(
            "partition.clients",
            f"it is {spec.clients}, but the column {spec.column!r} has {len(by_value)} values ({shown})"
            f"{times}.",
            f'With partition.by = "column" set partition.clients = {len(by_value) * each}.',
        )
    names = _names(spec.column, list(by_value))
    if each == 1:
        return names, list(by_value.values())
    shares = [np.array_split(rng.permutation(rows), each) for rows in by_value.values()]
    members = [part.tolist() for parts in shares for part in parts]
    return [f"{name}.{i + 1}" for name in names for i in range(each)], members


def _by_chance(spec: PartitionSpec, problems: Sequence[Problem], rng: np.random.Generator) -> list[list[int]]:
    k = spec.clients
    if spec.by == "dirichlet":
        pools = [np.array(rows) for rows in _values(spec, problems).values()]
        shares = [rng.dirichlet(np.full(k, spec.alpha)) for _ in pools]
    else:
        pools = [np.arange(len(problems))]
        skew = spec.alpha if spec.by == "size-skewed" else 0.0
        sizes = np.arange(1, k + 1, dtype=np.float64) ** -skew
        shares = [sizes / sizes.sum()]
    members: list[list[int]] = [[] for _ in range(k)]
    for pool, share_K in zip(pools, shares, strict=True):
        cuts = np.round(np.cumsum(share_K)[:-1] * len(pool)).astype(np.int64)
        for mine, part in zip(members, np.split(rng.permutation(pool), cuts), strict=True):
            mine.extend(part.tolist())
    return members


def _values(spec: PartitionSpec, problems: Sequence[Problem]) -> dict[Any, list[int]]:
    """Row numbers by value of the column, in the order of the values."""
    by_value: dict[Any, list[int]] = {}
    for row, problem in enumerate(problems):
        value = problem.metadata.get(spec.column)
        if value is None or isinstance(value, list | dict):
            raise _bad_column(spec, problem, problems)
        by_value.setdefault(value, []).append(row)
    return {value: by_value[value] for value in sorted(by_value, key=_order)}


def _bad_column(spec: PartitionSpec, problem: Problem, problems: Sequence[Problem]) -> RecipeError:
    columns = sorted({name for p in problems for name in p.metadata})
    if spec.column in problem.metadata:
        what = (
            f"in problem {problem.id!r} the column {spec.column!r} holds {problem.metadata[spec.column]!r}."
        )
    else:
        what = f"problem {problem.id!r} has no column {spec.column!r}."
    names = ", ".join(repr(name) for name in columns) or "none"
    return RecipeError(
        "partition.column", what, f"Choose a column with one value a problem; there are: {names}."
    )


def _order(value: Any) -> tuple[bool, float, str]:
    is_number = isinstance(value, int | float)
    return (not is_number, float(value) if is_number else 0.0, str(value))


def _names(column: str, values: Sequence[Any]) -> list[str]:
    """Names such as level-1 that are safe in paths: "Level 3" of column "level" becomes level-3."""
    names: list[str] = []
    prefix = _plain(column)
    for value in values:
        plain = _plain(value)
        name = plain if plain.startswith(f"{prefix}-") else f"{prefix}-{plain}"
        number, free = 2, name
        while free in names:
            number, free = number + 1, f"{name}-{number}"
        names.append(free)
    return names


def _plain(value: Any) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", str(value).lower()).strip("-.") or "value"


def _refuse_empty(
    spec: PartitionSpec, names: Sequence[str], members: Sequence[Sequence[int]], n: int
) -> None:
    for name, rows in zip(names, members, strict=True):
        if not rows:
            remedy = "Raise partition.alpha" if spec.by == "dirichlet" else "Lower partition.alpha"
            raise RecipeError(
                "partition",
                f"{name} gets none of the {n} problems ({spec.by} among {spec.clients} clients).",
                f"{remedy if spec.by != 'iid' else 'Add problems'}, or lower partition.clients.",
            )
