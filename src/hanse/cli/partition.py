"""The partition of a recipe's training problems, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hanse.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from hanse.recipe.model import Recipe
    from hanse.tasks.partition import PartitionRow

_MOST_LEVELS = 8


def partition_or_reason(recipe: Recipe) -> tuple[Table | None, str]:
    """The table; or None and the reason, where the task's data is not on this machine.

    Raises RecipeError for data that is there and does not fit the recipe.
    """
    from hanse.tasks.build import recipe_task
    from hanse.tasks.partition import build_partition, partition_table

    try:
        task = recipe_task(recipe)
    except RecipeError as error:
        if not _elsewhere(recipe, error):
            raise
        return None, f"unknown here: {error}"
    if recipe.partition.by == "own":
        return None, f"each of the {recipe.partition.clients} clients brings its own"
    held = recipe.federation_in_force.audit.owns or recipe.federation_in_force.public.on
    if held:
        from hanse.runtime.host import client_data  # slow: it knows models

        clients = client_data(recipe, task)
    else:
        clients = build_partition(recipe.partition, task.problems("train"), recipe.seed)
    rows = partition_table(clients, recipe.evaluation.level_column)
    aside = {split: len(task.problems(split)) for split in ("validation", "held_out")}
    return _table(recipe, rows, aside["validation"], aside["held_out"]), ""


def _elsewhere(recipe: Recipe, error: RecipeError) -> bool:
    """Whether a data set of the hub could not be had on this machine, as opposed to being wrong."""
    task = recipe.task
    absent = task.type == "huggingface" and not Path(task.path).exists()
    return absent and error.field in ("task.path", "task.type")


def _table(recipe: Recipe, rows: Sequence[PartitionRow], validation: int, held_out: int) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    column = recipe.evaluation.level_column
    levels = sorted({level for row in rows for level in row["counts"]}, key=_natural)
    shown = levels if len(levels) <= _MOST_LEVELS else []
    total = sum(row["problems"] for row in rows)
    pooled = ", pooled for the central learner" if recipe.mode == "central" else ""
    title = f"Training problems, partitioned by {recipe.partition.by}{pooled}"
    swarm = recipe.mode == "swarm"
    if swarm:
        title = "Training problems, which all nodes have"
    table = Table(
        box=SIMPLE_HEAD,
        title=title,
        caption=f"Beside them {validation:,} validation and {held_out:,} held-out problems.",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("nodes" if swarm else "client")
    first = [f"{column} {level}" for level in shown[:1]]
    for heading in ("problems", "share", *first, *shown[1:]):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in () if swarm else rows:
        cells = [str(row["counts"].get(level, "·")) for level in shown]
        table.add_row(row["client"], f"{row['problems']:,}", f"{row['problems'] / total:.1%}", *cells)
    sums = [str(sum(row["counts"].get(level, 0) for row in rows)) for level in shown]
    table.add_row("all", f"{total:,}", "", *sums, style="bold")
    return table


def _natural(level: str) -> tuple[int, float, str]:
    """Numbers by value, before words."""
    try:
        return 0, float(level), level
    except ValueError:
        return 1, 0.0, level
