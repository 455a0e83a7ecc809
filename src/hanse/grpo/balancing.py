"""Rewards one by one in a step: taken from scores, compared, weighed (see `reward_weights`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from hanse.grpo import reward_weights
from hanse.grpo.learner import Learner
from hanse.policy.rollout import Group, RewardParts
from hanse.recipe.model import GrpoSpec
from hanse.tasks.scoring.scores import Scores


def parts_of(scores: Scores, rows: slice) -> RewardParts | None:
    """The rewards that count, one by one; a completion that is unscored is so for all of them. None where
    there are not several."""
    counted = [f for f, weight in enumerate(scores.weights_F) if weight != 0]
    if len(counted) < 2:
        return None
    values = torch.from_numpy(scores.values_FN[counted, rows].copy())
    unscored = torch.from_numpy(np.isnan(scores.totals_N[rows]))
    return RewardParts(
        tuple(scores.names_F[f] for f in counted),
        tuple(scores.weights_F[f] for f in counted),
        values.masked_fill(unscored, torch.nan),
    )


def balance(groups: Sequence[Group], spec: GrpoSpec, learner: Learner) -> dict[str, float]:
    """Write advantages of rewards that are compared one by one, and move their weights where it is time."""
    own, state = spec.reward_weights, learner.state.balance or reward_weights.started(groups)
    advantages = reward_weights.parted_advantages(groups, spec.baseline, spec.scale)
    reward_weights.assign(groups, advantages, state.weights_M)
    if own.type == "hypergradient" and learner.state.step % own.every == 0:
        state = reward_weights.looked(state, learner.part_gradients(groups, advantages).cpu(), own)
        reward_weights.assign(groups, advantages, state.weights_M)
    learner.state.balance = state
    names = reward_weights.names_of(groups)
    return {f"rewards/{name}/weight": weight for name, weight in zip(names, state.weights_M, strict=True)}
