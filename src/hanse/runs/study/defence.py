"""What a study tells of lying clients: how far their attack got, and what it cost honest ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hanse.runs.report.reading import part
from hanse.runs.study.scalars import scalars

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
    return scalars(runs, "defence", SCALARS)
