"""What the page is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hanse.runs.report.data import Row
from hanse.runs.report.reading import Points, mean, numbered, points


@dataclass(frozen=True)
class Arm:
    """An arm of study.json and the round rows of each of its runs."""

    name: str
    told: Mapping[str, Any]
    rounds: Sequence[Sequence[Row]]

    @property
    def label(self) -> str:
        return str(self.told["label"])

    @property
    def metrics(self) -> list[str]:
        """Every metric, in the order of first appearance."""
        return list(dict.fromkeys(key for rows in self.rounds for row in rows for key in row))

    def mean(self, key: str) -> Points:
        """A metric's mean over the runs, round by round."""
        found: dict[float, list[float]] = {}
        for rows in self.rounds:
            for number, value in points(numbered(rows), key):
                found.setdefault(number, []).append(value)
        averages = ((number, mean(values)) for number, values in sorted(found.items()))
        return [(number, value) for number, value in averages if value is not None]


@dataclass(frozen=True)
class StudyData:
    """study.json and its arms, in its order."""

    document: Mapping[str, Any]
    arms: Sequence[Arm]

    def label(self, name: str) -> str:
        return next((arm.label for arm in self.arms if arm.name == name), name)

    @property
    def baseline(self) -> str:
        return self.label(self.document["baseline"])
