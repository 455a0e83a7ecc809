"""Cross-checks of how rollouts are shared out, among clients and among prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.errors import RecipeError

if TYPE_CHECKING:
    from hanse.recipe.model import Recipe


def check_rollouts(recipe: Recipe) -> None:
    """What is shared by informative groups needs a fair count of them, and steps of any size."""
    grpo, field = recipe.grpo, "federation.rollouts"
    if recipe.mode != "federated" or recipe.federation.rollouts == "equal":
        return
    if grpo.dynamic_sampling:
        problem = "dynamic sampling keeps informative groups only, which would tell no client from another."
        raise RecipeError(field, problem, 'Use rollouts = "equal", or grpo.screening = "joined".')
    if grpo.mini_batches > 1:
        problem = f"steps would differ in size, and grpo.mini_batches = {grpo.mini_batches} divides them."
        raise RecipeError(field, problem, "Use grpo.mini_batches = 1.")
    fewest, each = (grpo.prompts_per_step + 1) // 2 * grpo.group_size, grpo.screen_size + grpo.deepen
    if grpo.screening != "none" and fewest < each:
        raise RecipeError(
            field,
            f"a client may get as few as {fewest} rollouts a step, fewer than screen_size + deepen = "
            f"{grpo.screen_size} + {grpo.deepen}, what one prompt may take.",
            f"Use grpo.deepen = {max(2, fewest - grpo.screen_size)} or less, or more prompts a step.",
        )


def check_allocation(recipe: Recipe) -> None:
    """One rule says which prompts are worth it."""
    if recipe.grpo.allocation == "variance" and recipe.grpo.dynamic_sampling:
        problem = "what dynamic sampling throws away would be missing from what is predicted."
        raise RecipeError("grpo.allocation", problem, 'Use "uniform", or dynamic_sampling = false.')
