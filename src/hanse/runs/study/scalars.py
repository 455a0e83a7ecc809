"""What the runs of an arm tell in a part of their records, as numbers. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hanse.runs.report.reading import part, values
from hanse.runs.study.statistics import summarise


def scalars(runs: Sequence[Mapping[str, Any]], name: str, keys: Sequence[str]) -> dict[str, Any] | None:
    """Mean, spread and interval over runs of what they tell under `name`; None where no run has that part."""
    told = [part(run, name) for run in runs if part(run, name)]
    if not told:
        return None
    return {key: summarise(found).to_json() for key in keys if (found := values(told, key))}
