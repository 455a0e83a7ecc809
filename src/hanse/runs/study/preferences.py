"""What a study tells of reward models, beside accuracy after local steps. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hanse.runs.report.formats import known
from hanse.runs.report.reading import part
from hanse.runs.study.scalars import scalars

SCALARS = ("accuracy_before", "worst_before", "distance", "farthest", "rand_index", "groups_found")

Row = Mapping[str, Any]


def of_run(summary: Row) -> dict[str, Any] | None:
    """Of a run's record: accuracy before local steps is that of held-out pairs. None for other modes."""
    told = part(summary, "reward_model")
    if not told:
        return None
    final = part(summary, "evaluation", "final")
    groups = [v for value in part(final, "by_level_greedy").values() if (v := known(value)) is not None]
    before = {"accuracy_before": final.get("accuracy_greedy"), "worst_before": min(groups, default=None)}
    return {key: told.get(key) for key in SCALARS} | before


def of_arm(runs: Sequence[Row]) -> dict[str, Any] | None:
    """Mean, spread and interval over runs of all that they tell."""
    return scalars(runs, "reward_model", SCALARS)
