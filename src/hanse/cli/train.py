"""`hanse train`: from a recipe to a run folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from hanse.cli.interrupts import resumable
from hanse.cli.options import Overrides, Quiet, RecipeFile
from hanse.cli.outcome import print_outcome


def train(
    recipe: RecipeFile,
    overrides: Overrides = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the run's folder goes.")] = Path("runs"),
    name: Annotated[str | None, typer.Option(help="Name the run; its folder is DIR/NAME-NNN.")] = None,
    quiet: Quiet = False,
) -> None:
    """Train a policy as RECIPE says."""
    from hanse.recipe.load import load_recipe

    named = [] if name is None else [f"name={json.dumps(name)}"]
    loaded = load_recipe(recipe, [*(overrides or []), *named])

    from hanse.cli.progress import progress_unless
    from hanse.runs import train as start

    with resumable(out):
        run = start(loaded, out=out, progress=progress_unless(quiet))
    print_outcome(run.folder, run.summary, reached=quiet)
