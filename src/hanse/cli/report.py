"""`hanse report`: one self-contained page about a run or a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder of a run or a study.", show_default=False)
    ],
) -> None:
    """Write RUN's report.html, or a study's study.html, and print its path."""
    if (run / "study.json").is_file():
        from hanse.runs.study import write_page

        typer.echo(str(write_page(run)))
        return
    from hanse.runs import write_report

    typer.echo(str(write_report(run)))
