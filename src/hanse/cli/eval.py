"""`hanse eval`: accuracy of a run or a model on held-out problems."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hanse.cli.options import Overrides


def evaluate(
    target: Annotated[Path, typer.Argument(metavar="RUN|MODEL", help="A run's folder, or a model.")],
    recipe: Annotated[
        Path | None,
        typer.Option(metavar="RECIPE", help="Whose task and evaluation to use; default: the run's own."),
    ] = None,
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole evaluation as JSON.")] = False,
) -> None:
    """Measure accuracy on held-out problems."""
    from hanse.errors import RecipeError
    from hanse.recipe.load import load_recipe

    own = target / "recipe.toml"
    if recipe is None and not own.is_file():
        problem = f"{target} is no run folder (it has no recipe.toml)."
        raise RecipeError("--recipe", problem, "Give --recipe RECIPE: it names the task to evaluate on.")
    loaded = load_recipe(recipe or own, overrides or []) if recipe or overrides else None

    from hanse.cli.progress import progress_unless
    from hanse.runs import evaluate as measure

    result = measure(target, loaded, progress_unless(False))
    typer.echo(json.dumps(result, indent=2)) if as_json else _print(result)


_PROCESS = {
    "pass@samples": "solved",
    "distinct solutions": "distinct_solutions",
    "node coverage (NCR)": "ncr",
    "tokens per node (TPN)": "tpn",
}


def _print(result: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("", "accuracy", title=f"Held-out accuracy{_when(result)}")
    for label, key in (("sampled", "accuracy"), ("greedy", "accuracy_greedy")):
        if isinstance(result.get(key), int | float):
            table.add_row(label, f"{result[key]:.3f}")
    by_level = result.get("by_level")
    for label, key in _PROCESS.items():
        if isinstance(result.get(key), int | float):
            table.add_row(label, f"{result[key]:.3f}")
    for level, accuracy in by_level.items() if isinstance(by_level, Mapping) else ():
        table.add_row(f"level {level}", f"{accuracy:.3f}")
    Console().print(table)


def _when(result: Mapping[str, Any]) -> str:
    if "round" not in result:
        return ""
    return f" after round {result['round']}" + ("" if result.get("finished") else ", run not finished")
