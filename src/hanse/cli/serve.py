"""`hanse serve`: the server of a federation, which clients join over the network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hanse.cli.interrupts import resumable
from hanse.cli.options import Insecure, Keys, Overrides, Quiet, RecipeFile
from hanse.cli.outcome import print_outcome


def serve(
    recipe: RecipeFile,
    keys: Keys = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "0.0.0.0",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where to listen.")] = 9443,
    insecure: Insecure = False,
    overrides: Overrides = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the run's folder goes.")] = Path("runs"),
    quiet: Quiet = False,
) -> None:
    """Train as RECIPE says with clients that join; `hanse resume RUN` goes on after a stop."""
    from hanse.errors import RecipeError
    from hanse.recipe.load import load_recipe
    from hanse.runtime.flower import require_flower

    loaded = load_recipe(recipe, overrides or [])
    if loaded.runtime.type != "flower":
        problem = f'is "{loaded.runtime.type}": its clients are on this machine.'
        raise RecipeError("runtime.type", problem, 'Set runtime.type = "flower", or use `hanse train`.')
    require_flower("hanse serve")

    from hanse.cli.progress import progress_unless
    from hanse.runs.api import serve as start
    from hanse.runtime.flower.serving import Serving

    serving = Serving(host, port, None if insecure else str(keys_in_force(keys).resolve()))
    serving.check()
    with resumable(out):
        run = start(loaded, serving, out=out, progress=progress_unless(quiet))
    print_outcome(run.folder, run.summary, reached=quiet)


def keys_in_force(keys: Path | None) -> Path:
    """Raises RecipeError where none are given and it is not said that none are wanted."""
    from hanse.errors import RecipeError

    if keys is None:
        remedy = "Give --keys DIR (see hanse keys), or --insecure to do without on a network of your own."
        raise RecipeError("--keys", "no keys are given.", remedy)
    return keys
