"""From a recipe's mode to those who train."""

from __future__ import annotations

from pathlib import Path

from hanse.recipe.model import Recipe
from hanse.runs.training import Training
from hanse.tasks.problem import Task


def build_training(
    recipe: Recipe, start: Path | None, names: list[str], task: Task, *, idle: bool = False
) -> Training:
    """`start`: the tiny policy's warmed-up base; `names`: of the clients, one for each part of the data;
    `idle`: only to evaluate."""
    if recipe.mode == "swarm":
        from hanse.runs.swarm import SwarmTraining

        return SwarmTraining(recipe, start, task)
    from hanse.runs.federated import FederatedTraining

    return FederatedTraining(recipe, start, names, idle=idle)
