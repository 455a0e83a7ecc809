"""Cross-checks of a recipe: impossible sums and impossible pairs, each with its remedy.

What is possible but probably not meant is advice (`recipe.advice`), not an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hanse.recipe import (
    adversary_checks,
    audit_checks,
    federation_checks,
    lateness_checks,
    lora,
    pairs,
    privacy_checks,
    public,
    reward_model_checks,
    reward_only,
    reward_weights,
    robust_checks,
    rollout_checks,
    runtime_checks,
    secure_checks,
    shaping_checks,
    sums,
    swarm_checks,
)

if TYPE_CHECKING:
    from hanse.recipe.model import Recipe

Check = Callable[["Recipe"], None]

CHECKS: tuple[Check, ...] = (
    sums.check_group_size,
    sums.check_micro_batch,
    sums.check_mini_batches,
    sums.check_clients,
    sums.check_train_counts,
    sums.check_screening,
    sums.check_tiny_shape,
    sums.check_tiny_lengths,
    sums.check_warmup,
    sums.check_lessons,
    sums.check_splits,
    sums.check_evaluation,
    sums.check_optimiser,
    pairs.check_name,
    pairs.check_tiny_task,
    pairs.check_arithmetic_columns,
    pairs.check_held_out,
    pairs.check_rewards,
    pairs.check_clipping,
    adversary_checks.check_adversary,
    adversary_checks.check_collusion,
    adversary_checks.check_place,
    adversary_checks.check_flipping,
    audit_checks.check_audit,
    audit_checks.check_root,
    pairs.check_importance_correction,
    privacy_checks.check_privacy,
    public.check_public,
    federation_checks.check_fixed_weights,
    federation_checks.check_tasks,
    federation_checks.check_calibration,
    federation_checks.check_budget,
    federation_checks.check_betas,
    federation_checks.check_reward_range,
    federation_checks.check_rescaling,
    robust_checks.check_robust,
    reward_model_checks.check_reward_model,
    reward_only.check_reward_only,
    reward_weights.check_reward_weights,
    rollout_checks.check_rollouts,
    rollout_checks.check_allocation,
    runtime_checks.check_runtime,
    runtime_checks.check_own_data,
    lateness_checks.check_lateness,
    secure_checks.check_secure,
    shaping_checks.check_shaping,
    swarm_checks.check_swarm,
    lora.check_factors,
    lora.check_exchange,
    lora.check_left_over,
    lora.check_server,
    lora.check_local,
)


def check(recipe: Recipe) -> None:
    """Raise RecipeError where fields contradict one another."""
    for one in CHECKS:
        one(recipe)
