"""`hanse report`: one self-contained page about a run."""

from __future__ import annotations

import typer

from hanse.cli.options import RunFolder


def report(run: RunFolder) -> None:
    """Write RUN's report.html and print its path."""
    from hanse.runs import write_report

    typer.echo(str(write_report(run)))
