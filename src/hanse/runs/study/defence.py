"""What a study tells of lying clients: how far their attack got, and what it cost honest ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hanse.runs.report.formats import known
from hanse.runs.report.reading import part
from hanse.runs.study.statistics import summarise

SCALARS = ("attack_success", "honest_refused", "auc", "found")

Row = Mapping[str, Any]


def of_run(summary: Row) -> dict[str, Any] | None:
    """Of a run's record; None where nobody lies and nobody is audited."""
    told = dict(part(summary, "defence"))
    success = part(summary, "evaluation", "final").get("attack_success")
    found = {key: told[key] for key in SCALARS if key in told}
    if success is not None:
        found["attack_success"] = success
    return found or None


def of_arm(runs: Sequence[Row]) -> dict[str, Any] | None:
    """Mean, spread and interval over runs of all that they tell."""
    told = [part(run, "defence") for run in runs if part(run, "defence")]
    if not told:
        return None
    values = {key: [v for one in told if (v := known(one.get(key))) is not None] for key in SCALARS}
    return {key: summarise(found).to_json() for key, found in values.items() if found}
