"""Cross-checks of mode "reward-model", and of tasks that only it can learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.errors import RecipeError
from hanse.recipe.federation import FederationSpec
from hanse.recipe.preferences import PREFERENCE_TASKS

if TYPE_CHECKING:
    from hanse.recipe.model import Recipe

_USED = (
    "weighting",
    "server_optimizer",
    "server",
    "screening",
    "participation",
    "moments",
)
"""Options of `[federation]` that mean something here."""


def check_reward_model(recipe: Recipe) -> None:
    """All of them; in other modes, that somebody says what is preferred."""
    _attributes(recipe)
    if recipe.mode != "reward-model":
        _other_modes(recipe)
        return
    for check in (_task, _partition, _federation, _method, _training, _places):
        check(recipe)


def _attributes(recipe: Recipe) -> None:
    """Groups differ."""
    task = recipe.task
    if task.type != "synthetic-preferences":
        return
    if len(set(task.attributes)) < len(task.attributes):
        raise RecipeError("task.attributes", f"{task.attributes} names one twice.", "Name each one once.")
    most = 2 ** len(task.attributes)
    if len(task.clients) > most:
        problem = f"{len(task.attributes)} attributes make {most} different tastes, not {len(task.clients)}."
        raise RecipeError("task.clients", problem, "Name more attributes, or fewer groups.")


def _other_modes(recipe: Recipe) -> None:
    if recipe.task.type in PREFERENCE_TASKS and not recipe.rewards:
        problem = f'the task "{recipe.task.type}" has no right answers to reward.'
        remedy = 'Add [[rewards]], for example with type = "reward-model", or set mode = "reward-model".'
        raise RecipeError("rewards", problem, remedy)


def _task(recipe: Recipe) -> None:
    if recipe.task.type not in PREFERENCE_TASKS:
        problem = f'a reward model learns from preferences, and the task is "{recipe.task.type}".'
        raise RecipeError("task.type", problem, 'Use "preferences" (a file), or "synthetic-preferences".')
    if recipe.rewards:
        raise RecipeError("rewards", "a reward model is trained on preferences alone.", "Leave them out.")


def _partition(recipe: Recipe) -> None:
    """A pair has an owner, who labelled it."""
    partition = recipe.partition
    if partition.by != "column" or partition.clients_per_value != 1:
        problem = "every pair belongs to who labelled it."
        remedy = 'Use by = "column" with the column that names the client, and clients_per_value = 1.'
        raise RecipeError("partition.by", problem, remedy)
    if recipe.task.type == "synthetic-preferences" and partition.column != "client":
        problem = f"synthetic pairs have no client in a column {partition.column!r}."
        raise RecipeError("partition.column", problem, 'Use column = "client".')
    if recipe.task.type == "synthetic-preferences" and partition.clients != sum(recipe.task.clients):
        total = sum(recipe.task.clients)
        problem = f"{partition.clients}, and task.clients adds up to {total}."
        raise RecipeError("partition.clients", problem, f"Use clients = {total}.")


def _federation(recipe: Recipe) -> None:
    """What reads rewards, patches or single updates of a fixed set of clients has nothing to read."""
    plain = FederationSpec()
    for name in FederationSpec.model_fields:
        if name not in _USED and getattr(recipe.federation, name) != getattr(plain, name):
            problem = 'is not for mode "reward-model".'
            raise RecipeError(f"federation.{name}", problem, f"Leave it out; used are {', '.join(_USED)}.")
    if recipe.federation.weighting not in ("samples", "uniform"):
        problem = f'"{recipe.federation.weighting}" rests on rewards or client ids.'
        raise RecipeError("federation.weighting", problem, 'Use "uniform" or "samples".')


def _method(recipe: Recipe) -> None:
    spec = recipe.reward_model
    if spec.known_groups and spec.method != "debiased":
        problem = f'has no effect with method = "{spec.method}".'
        raise RecipeError("reward_model.known_groups", problem, 'Leave it out, or use method = "debiased".')
    if spec.method == "clustered" and spec.groups < 2:
        problem = "one cluster is everybody."
        raise RecipeError("reward_model.groups", problem, 'Use groups = 2, or method = "fedavg".')


def _training(recipe: Recipe) -> None:
    policy = recipe.policy
    if recipe.reward_model.train == "head" and policy.train == "lora":
        problem = "the head alone trains, and adapters would stay as they are."
        raise RecipeError("reward_model.train", problem, 'Use "all", or policy.train = "full".')
    if policy.train == "full" and policy.dtype != "float32":
        problem = f"the head is float32, and the whole policy would train with it in {policy.dtype}."
        raise RecipeError("policy.dtype", problem, 'Use "float32", or train = "lora".')
    if policy.type == "hf" and policy.gradient_checkpointing:
        problem = "is not for reward models."
        raise RecipeError("policy.gradient_checkpointing", problem, "Leave it out.")


def _places(recipe: Recipe) -> None:
    if recipe.runtime.workers != 1:
        problem = "the clients of a reward model run in one process."
        raise RecipeError("runtime.workers", problem, "Set it to 1.")
