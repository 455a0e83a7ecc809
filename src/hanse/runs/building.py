"""From a recipe's mode to those who train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hanse.recipe.model import Recipe
from hanse.runs.training import Training
from hanse.runtime.base import Connect, Setting
from hanse.runtime.host import Host
from hanse.tasks.problem import Task


@dataclass(frozen=True)
class Elsewhere:
    """How to reach clients that are not in this process. `folder`: the run's; `say`: takes notes."""

    connect: Connect
    folder: Path
    say: Callable[[str], None]

    def setting(self, recipe: Recipe, names: Sequence[str], start: Path | None, host: Host) -> Setting:
        return Setting(recipe, names, start, self.folder, host, self.say)


def build_training(
    recipe: Recipe,
    start: Path | None,
    names: list[str],
    task: Task,
    *,
    idle: bool = False,
    elsewhere: Elsewhere | None = None,
    accounts: Path | None = None,
) -> Training:
    """`start`: the tiny policy's warmed-up base; `names`: of the clients, one for each part of the data;
    `idle`: only to evaluate; `accounts`: the folder of clients' privacy accounts."""
    if recipe.mode == "swarm":
        from hanse.runs.swarm import SwarmTraining

        return SwarmTraining(recipe, start, task)
    if recipe.mode == "reward-model":
        from hanse.runs.reward_model import RewardModelTraining

        return RewardModelTraining(recipe, start, task)
    if recipe.mode == "reward-only":
        from hanse.runs.reward_only import RewardOnlyTraining

        return RewardOnlyTraining(recipe, start, names, idle=idle)
    from hanse.runs.federated import FederatedTraining

    return FederatedTraining(recipe, start, names, idle=idle, elsewhere=elsewhere, accounts=accounts)
