"""Advice on a recipe: combinations that work, but that their author may not have meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hanse.recipe import federation_checks, reward_only, reward_weights, secure_checks, shaping_checks
from hanse.recipe.pairs import clip_high
from hanse.recipe.sums import prompts_per_update, tiny_lengths

if TYPE_CHECKING:
    from hanse.recipe.model import Recipe


def advice(recipe: Recipe) -> list[str]:
    """Sentences that each begin with the field they are about."""
    if recipe.mode == "reward-model":  # nothing is sampled, and its checks refuse what has no effect
        return []
    return [
        *_objective(recipe),
        *_sampling(recipe),
        *_optimiser(recipe),
        *_policy(recipe),
        *_schedule(recipe),
        *federation_checks.notes(recipe),
        *secure_checks.notes(recipe),
        *shaping_checks.notes(recipe),
        *reward_only.notes(recipe),
        *reward_weights.notes(recipe),
    ]


def _objective(recipe: Recipe) -> Iterator[str]:
    grpo = recipe.grpo
    high = clip_high(recipe)
    if grpo.objective != "cispo" and high < grpo.clip_low:
        yield (
            f"grpo.clip_high = {high:g} is below clip_low = {grpo.clip_low:g}; published settings have it "
            "above (DAPO: 0.2 and 0.28). Swapped?"
        )
    if grpo.objective in ("dr_grpo", "rloo") and grpo.scale != "none":
        yield f'grpo.objective = "{grpo.objective}" is published with scale = "none", not "{grpo.scale}".'
    if grpo.objective == "rloo" and grpo.baseline != "leave_one_out":
        yield 'grpo.objective = "rloo" is published with baseline = "leave_one_out".'
    if grpo.objective == "gspo" and grpo.clip_low >= 0.1:
        yield (
            f"grpo.clip_low = {grpo.clip_low:g} hardly ever acts on GSPO's length-normalised ratios; "
            "published: clip_low = 3e-4, clip_high = 4e-4."
        )
    if grpo.beta == 0 and "kl" in grpo.model_fields_set and grpo.kl != "k3":
        yield f'grpo.kl = "{grpo.kl}" has no effect with beta = 0.'


def _sampling(recipe: Recipe) -> Iterator[str]:
    grpo = recipe.grpo
    cut = grpo.top_k > 0 or grpo.top_p < 1
    if cut and grpo.importance_correction == "none" and recipe.mode != "swarm":
        yield (
            "grpo.top_k / top_p: truncated sampling draws from another distribution than the one that is "
            'trained; importance_correction = "truncate" weighs the tokens back.'
        )
    if grpo.dynamic_sampling:
        total = prompts_per_update(recipe) * grpo.group_size
        yield (
            f"grpo.dynamic_sampling may sample up to {total} × (1 + {grpo.max_resamples}) = "
            f"{total * (1 + grpo.max_resamples):,} completions a step."
        )
    lengths = tiny_lengths(recipe.task)
    if lengths is not None and grpo.max_new_tokens == lengths[1]:
        yield (
            f"grpo.max_new_tokens = {lengths[1]} leaves no room for the end token, so every "
            "completion counts as cut off."
        )


def _optimiser(recipe: Recipe) -> Iterator[str]:
    grpo, policy = recipe.grpo, recipe.policy
    steps = recipe.rounds * grpo.local_steps
    if grpo.warmup_steps >= steps:
        yield (
            f"grpo.warmup_steps = {grpo.warmup_steps}, but there are {recipe.rounds} × {grpo.local_steps} = "
            f"{steps} steps: the learning rate never reaches grpo.lr."
        )
    if policy.train == "lora" and grpo.lr <= 2e-6:
        yield f"grpo.lr = {grpo.lr:g} is low for LoRA; 1e-5 to 1e-4 is usual (1e-6 suits full training)."
    if policy.type == "tiny" and policy.train == "full" and grpo.lr <= 1e-5:
        yield f"grpo.lr = {grpo.lr:g} will not move the tiny policy within {steps} steps; 1e-3 does."


def _policy(recipe: Recipe) -> Iterator[str]:
    policy = recipe.policy
    if policy.dtype == "bfloat16" and policy.train == "lora":
        yield (
            'policy.dtype = "bfloat16" with LoRA: the adapters keep float32 masters and are cast for '
            "computing; what is exchanged follows federation.exchange_dtype."
        )
    if policy.dtype == "bfloat16" and policy.type == "tiny":
        yield 'policy.dtype = "bfloat16" makes a tiny policy slower, not faster; "float32" suits it.'
    if policy.type == "hf" and policy.gradient_checkpointing:
        yield (
            "policy.gradient_checkpointing saves memory, but the prompt is then encoded once a completion "
            "instead of once a group."
        )


def _schedule(recipe: Recipe) -> Iterator[str]:
    evaluation = recipe.evaluation
    evaluations = recipe.rounds // evaluation.every
    if evaluation.patience is not None and evaluation.patience >= evaluations:
        yield (
            f"evaluation.patience = {evaluation.patience} can never run out: {recipe.rounds} rounds hold "
            f"{evaluations} evaluations."
        )
    if recipe.scoring.deadline_s > recipe.scoring.budget_s:
        yield "scoring.deadline_s is longer than scoring.budget_s, which ends the whole batch first."
    if recipe.mode == "central" and recipe.runtime.workers > 1:
        yield 'runtime.workers has no effect with mode = "central": there is one learner.'
