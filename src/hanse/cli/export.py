"""`hanse export`: the trained policy as a folder that `transformers` or `peft` loads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hanse.cli.options import RunFolder


def export(
    run: RunFolder,
    merge: Annotated[
        bool, typer.Option("--merge", help="Merge LoRA adapters into the base weights.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Default: RUN/export, or RUN/merged with --merge.")
    ] = None,
) -> None:
    """Write RUN's policy for other software and print its path."""
    from hanse.runs import export as write

    typer.echo(str(write(run, out or run / ("merged" if merge else "export"), merge)))
