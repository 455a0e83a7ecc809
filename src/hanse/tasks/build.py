"""From the recipe's [task] to a Task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hanse.errors import RecipeError
from hanse.recipe.model import Recipe
from hanse.recipe.preferences import SyntheticPreferencesTask
from hanse.recipe.tasks import FileTask, TaskSpec, WorkedSumsTask
from hanse.tasks.arithmetic import build_arithmetic
from hanse.tasks.files import build_files, build_held_out
from hanse.tasks.huggingface import build_huggingface
from hanse.tasks.human_eval import build_human_eval
from hanse.tasks.listed import ListedTask
from hanse.tasks.preferences import build_preferences
from hanse.tasks.problem import Problem, Task
from hanse.tasks.reasoning_gym import build_reasoning_gym
from hanse.tasks.synthetic_preferences import build_synthetic, data_seed
from hanse.tasks.worked import build_worked

_BUILDERS: Mapping[str, Callable[[Any], ListedTask]] = {
    "arithmetic": build_arithmetic,
    "worked-sums": build_worked,
    "jsonl": build_files,
    "parquet": build_files,
    "huggingface": build_huggingface,
    "reasoning-gym": build_reasoning_gym,
    "human-eval": build_human_eval,
    "preferences": build_preferences,
    "synthetic-preferences": build_synthetic,
}


def build_task(spec: TaskSpec) -> Task:
    """The task that `spec` describes, its problems loaded and split.

    Raises RecipeError, with the field to mend, for files that cannot be read, columns that are missing,
    and packages that are not installed.
    """
    return _BUILDERS[spec.type](spec)


def recipe_task(recipe: Recipe) -> Task:
    """The task of a recipe; without training problems where each client brings its own. Under privacy the
    starting policy, which is public, is taught on validation problems."""
    spec = recipe.task
    if recipe.partition.by == "own" and isinstance(spec, FileTask):
        return build_held_out(spec)
    if isinstance(spec, WorkedSumsTask) and recipe.privacy.enabled:
        return build_worked(spec, "validation")
    if isinstance(spec, SyntheticPreferencesTask):
        spec = data_seed(spec, recipe.seed)
    return build_task(spec)


def problems_of(spec: TaskSpec, path: str, field: str) -> tuple[Problem, ...]:
    """All problems of another file, in the form that the recipe's task gives them.

    Raises RecipeError, about `field`, for a task without files, a file that cannot be read or holds nothing.
    """
    if not isinstance(spec, FileTask):
        problem = f'names a file of rows like the task\'s, and task.type is "{spec.type}".'
        raise RecipeError(field, problem, "Leave it out, or use a task of files.")
    return build_held_out(spec.model_copy(update={"held_out_path": path}), field).problems("held_out")


def own_problems(spec: TaskSpec, path: str) -> tuple[Problem, ...]:
    """All problems of a client's own file, in the form that the recipe's task gives them.

    Raises RecipeError for a file that cannot be read or holds nothing.
    """
    if not isinstance(spec, FileTask):
        problem = f'replaces the file of a task, and task.type is "{spec.type}".'
        raise RecipeError("--data", problem, "Leave it out: the recipe says whose problems are whose.")
    return build_held_out(spec.model_copy(update={"held_out_path": path}), "--data").problems("held_out")
