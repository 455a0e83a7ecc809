"""The last lines that `train` and `resume` print."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer


def print_outcome(folder: Path, summary: Mapping[str, Any], *, reached: bool) -> None:
    """Where the run is and what to do next; with `reached`, what no progress display has said."""
    typer.echo(f"Run folder: {folder}")
    if reached:
        _print_reached(summary)
    typer.echo(f"Next: hanse report {folder}   or   hanse export {folder}")


def _print_reached(summary: Mapping[str, Any]) -> None:
    from hanse.runs.report.outcome import swarm_remarks

    evaluation = summary.get("evaluation") or {}
    steps = [(evaluation.get(when) or {}).get("accuracy") for when in ("initial", "final")]
    if all(isinstance(accuracy, int | float) for accuracy in steps):
        typer.echo(f"Held-out accuracy: {steps[0]:.3f} before, {steps[1]:.3f} after.")
    for line in swarm_remarks(summary):
        typer.echo(line)
    seconds = summary.get("seconds")
    if isinstance(seconds, int | float):
        typer.echo(f"Rounds: {summary.get('rounds')} in {seconds:.0f} s.")
