"""The result of a study for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hanse.runs.report.formats import fixed, signed

if TYPE_CHECKING:
    from rich.table import Table


def spread(summary: Mapping[str, Any], digits: int = 3) -> str:
    """'0.412 ± 0.013'; the mean alone where there is no spread."""
    mean = fixed(summary.get("mean"), digits)
    return mean if summary.get("sd") is None else f"{mean} ± {fixed(summary['sd'], digits)}"


def interval_of(difference: Mapping[str, Any]) -> str:
    """'−0.010 to +0.034'."""
    interval = difference.get("interval")
    return "" if interval is None else f"{signed(interval[0])} to {signed(interval[1])}"


def outcome_table(document: Mapping[str, Any]) -> Table:
    """Each arm's mean ± sd and its paired difference to the baseline."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("arm", header_style="dim")
    for head in ("runs", "accuracy", f"minus {document['baseline']}", "95 % interval", "failed"):
        table.add_column(head, justify="right", header_style="dim")
    for name, arm in document["arms"].items():
        difference = arm["difference"] or {}
        failed = len(arm["failed"])
        table.add_row(
            Text(name),
            f"{len(arm['runs'])}/{arm['planned']}",
            spread(arm),
            signed(difference.get("mean")),
            interval_of(difference),
            Text(str(failed or "·"), "red" if failed else "dim"),
        )
    return table
