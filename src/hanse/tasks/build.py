"""From the recipe's [task] to a Task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hanse.recipe.tasks import TaskSpec
from hanse.tasks.arithmetic import build_arithmetic
from hanse.tasks.files import build_files
from hanse.tasks.huggingface import build_huggingface
from hanse.tasks.human_eval import build_human_eval
from hanse.tasks.listed import ListedTask
from hanse.tasks.problem import Task
from hanse.tasks.reasoning_gym import build_reasoning_gym
from hanse.tasks.worked import build_worked

_BUILDERS: Mapping[str, Callable[[Any], ListedTask]] = {
    "arithmetic": build_arithmetic,
    "worked-sums": build_worked,
    "jsonl": build_files,
    "parquet": build_files,
    "huggingface": build_huggingface,
    "reasoning-gym": build_reasoning_gym,
    "human-eval": build_human_eval,
}


def build_task(spec: TaskSpec) -> Task:
    """The task that `spec` describes, its problems loaded and split.

    Raises RecipeError, with the field to mend, for files that cannot be read, columns that are missing,
    and packages that are not installed.
    """
    return _BUILDERS[spec.type](spec)
