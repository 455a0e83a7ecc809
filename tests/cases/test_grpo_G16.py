"""G16: advantages normalised twice or after filtering. Here: once, over whole groups, before rows leave."""

from __future__ import annotations

import pytest
import torch

from grpo.toys import gradient_of, make_groups, make_policy, relative, spec_of
from hanse.grpo import learner as learner_module
from hanse.grpo.batch import pack, without_idle_groups
from hanse.grpo.step import assign_advantages


def with_an_idle_group(policy, spec):
    groups = make_groups(policy, spec)
    groups[0].rewards_G = torch.full((4,), 0.5, dtype=torch.float64)
    groups[1].rewards_G = torch.tensor([0.0, 0, 0, 1], dtype=torch.float64)
    assign_advantages(groups, spec)
    return groups


@pytest.mark.parametrize("scale", ["group", "group_population", "batch", "none"])
def test_leaving_idle_groups_out_changes_no_advantage(scale: str):
    spec = spec_of(scale=scale)
    groups = with_an_idle_group(make_policy(), spec)
    batch = pack(groups)
    kept = without_idle_groups(batch)
    assert kept.rollouts < batch.rollouts
    busy = batch.advantages_PG.any(-1)
    assert torch.equal(kept.advantages_PG, batch.advantages_PG[busy])
    assert batch.advantages_PG.sum(-1).abs().max() < 1e-6


@pytest.mark.parametrize("objective", ["grpo", "dapo", "bnpo", "dr_grpo"])
def test_idle_groups_still_count_in_the_denominators(objective: str, monkeypatch: pytest.MonkeyPatch):
    policy = make_policy()
    spec = spec_of(objective=objective)
    groups = with_an_idle_group(policy, spec)
    _, skipped = gradient_of(policy, spec, groups)
    monkeypatch.setattr(learner_module, "without_idle_groups", lambda batch: batch)
    _, whole = gradient_of(policy, spec, groups)
    assert relative(skipped, whole) < 2e-6
