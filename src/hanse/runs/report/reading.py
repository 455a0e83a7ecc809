"""What the rows of a run say, however incomplete they are."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hanse.runs.report.data import ReportData, Row
from hanse.runs.report.formats import known

Points = list[tuple[float, float]]

BY_LEVEL = "evaluation/by_level/"
OF_CLIENT = "clients/"
SERVER = "server"
"""What steps of a server that trains itself are booked under."""


def part(row: Any, *keys: str) -> Mapping[str, Any]:
    """A nested mapping, empty where there is none."""
    for key in keys:
        row = row.get(key) if isinstance(row, Mapping) else None
    return row if isinstance(row, Mapping) else {}


def numbered(rows: Iterable[Row]) -> list[Row]:
    """Round rows in the order of their rounds."""
    return sorted((row for row in rows if known(row.get("round")) is not None), key=lambda row: row["round"])


def points(rows: Sequence[Row], key: str) -> Points:
    """(round, value) wherever the metric is known."""
    found = ((known(row.get("round")), known(row.get(key))) for row in rows)
    return [(x, y) for x, y in found if x is not None and y is not None]


def values(rows: Iterable[Row], key: str) -> list[float]:
    return [value for row in rows if (value := known(row.get(key))) is not None]


def mean(numbers: Sequence[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None


def late(numbers: Sequence[float]) -> float | None:
    """The mean over the last quarter: where a noisy metric has ended up."""
    return mean(numbers[-max(1, len(numbers) // 4) :])


def levels(data: ReportData) -> list[str]:
    """Every level that was measured, in the order of the evaluation."""
    evaluation = part(data.summary, "evaluation")
    names = [*part(evaluation, "final", "by_level"), *part(evaluation, "initial", "by_level")]
    names += [key.removeprefix(BY_LEVEL) for row in data.rounds for key in row if key.startswith(BY_LEVEL)]
    return list(dict.fromkeys(str(name) for name in names))


def clients(data: ReportData) -> list[str]:
    """Every client that appears anywhere; none in a swarm, whose nodes have a section of their own. A server
    that trains is no client."""
    if data.mode == "swarm":
        return []
    names = [row.get("client") for row in (*data.partition, *data.steps)]
    names += [
        key.removeprefix(OF_CLIENT).rpartition("/")[0]
        for row in data.rounds
        for key in row
        if key.startswith(OF_CLIENT)
    ]
    server = SERVER if data.mode == "reward-only" else None
    return list(dict.fromkeys(str(name) for name in names if name and name != server))


def settings(data: ReportData) -> Mapping[str, Any]:
    """The recipe as a document, empty where it doesn't parse."""
    try:
        return tomllib.loads(data.recipe_toml)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def grouped(rows: Iterable[Row], key: Callable[[Row], str]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def name_level(level: str) -> str:
    """'level 3', but 'geometry' as it is."""
    return f"level {level}" if level.strip().isdigit() else level
