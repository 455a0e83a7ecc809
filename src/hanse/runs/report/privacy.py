"""What a run under privacy guarantees, in the words of its summary, and what each client spent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hanse.runs.report.data import ReportData
from hanse.runs.report.formats import known, whole
from hanse.runs.report.markup import Section, section, tag
from hanse.runs.report.reading import part
from hanse.runs.report.tables import table


def privacy(data: ReportData) -> Section:
    """Empty without `[privacy]`."""
    told = part(data.summary, "privacy")
    words = told.get("guarantee")
    if not isinstance(words, str):
        return section("privacy", "Privacy")
    rows = [
        [str(name), *_account(one)] for name, one in part(told, "clients").items() if isinstance(one, Mapping)
    ]
    heads = ["client", "ε spent", "δ", "noise over clip", "sampling rate", "steps"]
    return section("privacy", "Privacy", tag("p", words), table("What each client spent", heads, rows))


def _account(one: Mapping[str, Any]) -> list[str]:
    epsilon = known(one.get("epsilon"))
    numbers = [known(one.get(name)) for name in ("delta", "noise", "rate")]
    written = ["" if number is None else f"{number:.3g}" for number in numbers]
    return ["∞" if epsilon is None else f"{epsilon:.3g}", *written, whole(one.get("steps"))]
