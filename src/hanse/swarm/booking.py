"""From judged completions to groups that a learner takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from hanse.policy.policy import Policy
from hanse.policy.readings import Readings
from hanse.policy.rollout import Group
from hanse.recipe.model import GrpoSpec
from hanse.recipe.swarm import SwarmSpec
from hanse.swarm.accounting import Account, Standing, account
from hanse.swarm.collect import Grid
from hanse.swarm.foreign import foreign_weights
from hanse.tasks.problem import Problem


def book(
    grid: Grid,
    rewards_N: Tensor,
    standing_N: Tensor,
    own_N: Tensor,
    readings: Readings,
    swarm: SwarmSpec,
    grpo: GrpoSpec,
) -> Account:
    """Advantages by standing, those of foreign completions by how likely the receiver would have written
    them. `own_N`: the receiver's own."""
    rewards = grid.spread(rewards_N, torch.nan)
    standing = grid.spread(standing_N, Standing.DROPPED)
    constant = grpo.objective == "dr_grpo"
    booked = account(rewards, standing, baseline=grpo.baseline, scale=grpo.scale, constant=constant)
    if swarm.foreign_weight == "none":
        return booked
    damped = foreign_weights(readings, grid, booked.advantages_PG, swarm)
    own = grid.spread(own_N, False)
    return replace(booked, advantages_PG=torch.where(own, booked.advantages_PG, damped))


def groups_of(
    booked: Account,
    grid: Grid,
    rewards_N: Tensor,
    readings: Readings,
    problems_P: Sequence[Problem],
    policy: Policy,
) -> list[Group]:
    """Groups with advantages; NaN rewards keep what has no gradient out of the loss."""
    rewards = grid.spread(rewards_N, torch.nan)
    active = torch.where(booked.active_PG, rewards.nan_to_num(0.0), torch.nan)
    logp, device = readings.logp_NT.view_as(grid.tokens_PST), policy.device
    return [
        Group(
            problem=problem,
            prompt_ids=policy.encode(problem.prompt),
            tokens_GT=grid.tokens_PST[i].to(device),
            lengths_G=grid.lengths_PS[i].to(device),
            terminated_G=grid.stopped_PS[i].to(device),
            logp_GT=logp[i].to(device),
            rewards_G=active[i],
            advantages_G=booked.advantages_PG[i],
        )
        for i, problem in enumerate(problems_P)
    ]
