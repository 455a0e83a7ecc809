"""`hanse consensus`: intermediate results that right solutions share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hanse.cli.options import Overrides, Quiet, RecipeFile


def build(
    recipe: RecipeFile,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Default: grpo.shaping.consensus.nodes.", show_default=False),
    ] = None,
    overrides: Overrides = None,
    quiet: Quiet = False,
) -> None:
    """Write the consensus nodes of RECIPE's problems, from rollouts of its untrained policy."""
    from hanse.recipe.load import load_recipe

    loaded = load_recipe(recipe, overrides or [])

    from hanse.cli.progress import progress_unless
    from hanse.errors import InterruptedRunError
    from hanse.runs.consensus import build_consensus

    try:
        built = build_consensus(loaded, out, progress_unless(quiet))
    except KeyboardInterrupt:
        raise InterruptedRunError("Interrupted. The same command goes on where it stopped.") from None
    typer.echo(
        f"{built.nodes} nodes in {built.with_nodes} of {built.problems} problems ({built.solved} with a "
        f"right rollout): {built.path}"
    )
