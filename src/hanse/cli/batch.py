"""The batch arithmetic of a recipe, in words."""

from __future__ import annotations

from hanse.cli.estimate import learners
from hanse.recipe.model import Recipe
from hanse.recipe.sums import prompts_per_update


def batch_in_words(recipe: Recipe) -> list[str]:
    """Sentences from a group up to the whole run, each with its product."""
    grpo, parties = recipe.grpo, learners(recipe)
    prompts, G = prompts_per_update(recipe), grpo.group_size
    who = "the central learner" if recipe.mode == "central" else "each client"
    step = f"A step: {who} takes {prompts} problems × {G} completions = {prompts * G:,} completions"
    if recipe.mode == "central":
        step += f" ({recipe.partition.clients} clients' shares of {grpo.prompts_per_step} pooled)"
    updates = grpo.iterations * grpo.mini_batches
    size = prompts * G // grpo.mini_batches
    lines = [f"{step}, up to {grpo.max_new_tokens} tokens each."]
    if updates > 1:
        lines.append(
            f"Updates: {grpo.iterations} passes × {grpo.mini_batches} mini-batches = {updates} a step, of "
            f"{size:,} completions."
        )
    micro = grpo.micro_batch
    lines.append(
        f"Micro-batches: {micro} completions, {-(-size // micro)} an update."
        if micro
        else "Micro-batches: as many completions as memory allows; they change the result by rounding only."
    )
    steps, a_round = recipe.rounds * grpo.local_steps, prompts * G * grpo.local_steps * parties
    lines.append(
        f"A round: {grpo.local_steps} steps × {prompts * G:,} × {parties} = {a_round:,} completions"
        f"{'' if parties == 1 else f' from {parties} clients'}."
    )
    lines.append(
        f"The run: {recipe.rounds} rounds × {grpo.local_steps} = {steps} steps a learner, "
        f"{recipe.rounds * a_round:,} completions, at most {recipe.rounds * a_round * grpo.max_new_tokens:,} "
        "new tokens."
    )
    return lines
