"""`hanse join`: take part in a federation with problems that stay here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hanse.cli.options import Insecure, Keys, Overrides, Quiet
from hanse.cli.serve import keys_in_force


def join(
    server: Annotated[str, typer.Option(metavar="HOST:PORT", help="The server.", show_default=False)],
    recipe: Annotated[Path, typer.Option(metavar="RECIPE", help="The recipe in TOML.", show_default=False)],
    client: Annotated[str, typer.Option(metavar="NAME", help="Which client this is.", show_default=False)],
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="This client's own problems.", show_default=False),
    ] = None,
    keys: Keys = None,
    insecure: Insecure = False,
    state: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where it keeps its state; default: nodes/NAME.")
    ] = None,
    patience: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How long to look for a server that is away.")
    ] = 3600.0,
    overrides: Overrides = None,
    quiet: Quiet = False,
) -> None:
    """Take part in a run until it is over; the same command goes on after a stop."""
    from hanse.errors import InterruptedRunError
    from hanse.recipe.load import load_recipe
    from hanse.runtime.flower import require_flower

    try:
        loaded = load_recipe(recipe, overrides or [])
        require_flower("hanse join")

        from hanse.runs.api import terminated_as_interrupted
        from hanse.runs.joining import Membership, join_run

        member = Membership(
            loaded,
            server,
            client,
            None if data is None else str(data.resolve()),
            None if insecure else keys_in_force(keys),
            Path("nodes") / client if state is None else state,
            patience,
        )
        with terminated_as_interrupted():
            join_run(member, (lambda text: None) if quiet else typer.echo)
    except KeyboardInterrupt:
        raise InterruptedRunError("Interrupted. The same command goes on where this client was.") from None
