"""What can only be checked once the tokenizer is there, and before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.errors import RecipeError
from hanse.policy.policy import Policy
from hanse.recipe.model import Recipe
from hanse.tasks.partition import ClientData
from hanse.tasks.problem import Problem, Task


def preflight(recipe: Recipe, policy: Policy, task: Task, parts: Sequence[ClientData]) -> None:
    """Raises RecipeError for prompts that do not fit the model's context, and for an empty held-out split."""
    held_out = task.problems("held_out")
    if not held_out:
        raise RecipeError(
            "task", "no problem is held out for evaluation.", "Raise task.held_out_fraction or add problems."
        )
    limit = recipe.grpo.max_prompt_tokens
    training = [p for part in parts for p in part.problems]
    if limit is not None:
        training = [p for p in training if len(policy.encode(p.prompt)) <= limit]
    _check_context(recipe, policy, [*training, *held_out, *task.problems("validation")])


def _check_context(recipe: Recipe, policy: Policy, problems: Sequence[Problem]) -> None:
    room = policy.context - recipe.grpo.max_new_tokens
    lengths = [len(policy.encode(problem.prompt)) for problem in problems]
    longest = max(lengths)
    if longest <= room:
        return
    over = sum(length > room for length in lengths)
    raise RecipeError(
        "grpo.max_new_tokens",
        f"{over} of {len(lengths)} prompts do not fit: the longest has {longest} tokens, and with "
        f"{recipe.grpo.max_new_tokens} new ones that is more than the model's context of {policy.context}.",
        f"Set grpo.max_prompt_tokens (such training prompts are left out), lower grpo.max_new_tokens to "
        f"{max(1, policy.context - longest)}, or shorten the prompts.",
    )
