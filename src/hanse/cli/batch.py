"""The batch arithmetic of a recipe, in words."""

from __future__ import annotations

from hanse.cli.estimate import learners
from hanse.recipe.model import Recipe
from hanse.recipe.sums import prompts_per_update


def batch_in_words(recipe: Recipe) -> list[str]:
    """Sentences from a group up to the whole run, each with its product."""
    return [*_step(recipe), *_run(recipe)]


def _step(recipe: Recipe) -> list[str]:
    grpo, prompts = recipe.grpo, prompts_per_update(recipe)
    total, updates = prompts * grpo.group_size, grpo.iterations * grpo.mini_batches
    central = recipe.mode == "central"
    who = {"central": "the central learner", "reward-only": "the server"}.get(recipe.mode, "each client")
    pooled = (
        f" ({recipe.partition.clients} clients' shares of {grpo.prompts_per_step} pooled)" if central else ""
    )
    lines = [
        f"A step: {who} takes {prompts} problems × {grpo.group_size} completions = {total:,} completions"
        f"{pooled}, up to {grpo.max_new_tokens} tokens each."
    ]
    size = total // grpo.mini_batches
    if updates > 1:
        lines.append(
            f"Updates: {grpo.iterations} passes × {grpo.mini_batches} mini-batches = {updates} a step, of "
            f"{size:,} completions."
        )
    if grpo.micro_batch is None:
        return [
            *lines,
            "Micro-batches: as many completions as memory allows; they change the result by rounding only.",
        ]
    return [
        *lines,
        f"Micro-batches: {grpo.micro_batch} completions, {-(-size // grpo.micro_batch)} an update.",
    ]


def _run(recipe: Recipe) -> list[str]:
    grpo, parties = recipe.grpo, learners(recipe)
    total = prompts_per_update(recipe) * grpo.group_size
    a_round, whole = total * grpo.local_steps * parties, total * grpo.local_steps * parties * recipe.rounds
    source = "" if parties == 1 else f" from {parties} clients"
    lines = [
        f"A round: {grpo.local_steps} steps × {total:,} × {parties} = {a_round:,} completions{source}.",
        f"The run: {recipe.rounds} rounds × {grpo.local_steps} = {recipe.rounds * grpo.local_steps} steps a "
        f"learner, {whole:,} completions, at most {whole * grpo.max_new_tokens:,} new tokens.",
    ]
    if recipe.federation_in_force.public.on:
        from hanse.cli.public import public_in_words

        lines += public_in_words(recipe)
    own, clients = recipe.reward_only.own_steps, recipe.partition.clients
    if recipe.mode == "reward-only" and own:
        before = own * total * clients
        lines.append(f"Before it: {own} own steps × {total:,} × {clients} clients = {before:,} completions.")
    return lines
