"""Levels, clients and series from the rows of a run; whatever is missing is left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hanse.runs.report.data import ReportData, Row
from hanse.runs.report.page.numbers import finite

Points = tuple[tuple[float, float], ...]
_LEVEL = "evaluation/by_level/"
_CLIENT = "clients/"


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def section(data: ReportData, *path: str) -> Mapping[str, Any]:
    """A nested part of the summary, empty where there is none."""
    part: Mapping[str, Any] = mapping(data.summary)
    for name in path:
        part = mapping(part.get(name))
    return part


def levels(data: ReportData) -> list[str]:
    """In order of first appearance: held-out evaluation, then validation."""
    names = [*section(data, "evaluation", "initial", "by_level")]
    names += section(data, "evaluation", "final", "by_level")
    names += [key.removeprefix(_LEVEL) for row in data.rounds for key in row if key.startswith(_LEVEL)]
    return list(dict.fromkeys(str(name) for name in names))


def clients(data: ReportData) -> list[str]:
    """In the order of the partition, then of appearance."""
    names = [row["client"] for row in data.partition if row.get("client") is not None]
    for row in data.rounds:
        keys = [key for key in row if key.startswith(_CLIENT) and key.count("/") > 1]
        names += [key.removeprefix(_CLIENT).rsplit("/", 1)[0] for key in keys]
    return list(dict.fromkeys(str(name) for name in names))


def points(rows: Iterable[Row], key: str) -> Points:
    """(round, value) wherever both are finite numbers."""
    pairs = [(finite(row.get("round")), finite(row.get(key))) for row in rows]
    return tuple((x, y) for x, y in pairs if x is not None and y is not None)


def level_key(level: str) -> str:
    return f"{_LEVEL}{level}"


def client_key(client: str, metric: str) -> str:
    return f"{_CLIENT}{client}/{metric}"


def values(rows: Iterable[Row], key: str) -> list[float]:
    return [value for row in rows if (value := finite(row.get(key))) is not None]


def mean(numbers: Sequence[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None


def total(rows: Iterable[Row], key: str) -> float | None:
    found = values(rows, key)
    return sum(found) if found else None


def refusals(data: ReportData) -> list[tuple[float | None, str, str]]:
    """(round, client, reason) of every upload that was refused."""
    names = clients(data)
    return [
        (finite(row.get("round")), name, str(reason))
        for row in data.rounds
        for name in names
        if (reason := row.get(client_key(name, "refused")))
    ]


def mean_points(series: Sequence[Points]) -> Points:
    """The mean over series at each round."""
    at: dict[float, list[float]] = {}
    for one in series:
        for x, y in one:
            at.setdefault(x, []).append(y)
    return tuple((x, sum(ys) / len(ys)) for x, ys in sorted(at.items()))
