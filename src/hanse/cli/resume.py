"""`hanse resume`: go on with a run that was stopped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from hanse.cli.options import Quiet, RunFolder
from hanse.cli.outcome import print_outcome
from hanse.errors import InterruptedRunError


def resume(run: RunFolder, quiet: Quiet = False) -> None:
    """Continue RUN from its newest complete round."""
    from hanse.cli.progress import progress_unless
    from hanse.runs import resume as go_on

    try:
        finished = go_on(run, progress=progress_unless(quiet))
    except KeyboardInterrupt:
        raise InterruptedRunError(f"Interrupted. Continue with: hanse resume {run}") from None
    if finished.already_finished:
        _print_finished(run, finished.summary)
    print_outcome(finished.folder, finished.summary, reached=quiet or finished.already_finished)


def _print_finished(run: Path, summary: Mapping[str, Any]) -> None:
    stopped = summary.get("stopped")
    more = f": {stopped}." if stopped else f"; to go on, raise `rounds` in {run / 'recipe.toml'}."
    typer.echo(f"Already finished{more}")
