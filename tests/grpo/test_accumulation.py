"""Promise 3: 1×8 = 8×1. Micro-batches, padding and batch-mates change nothing beyond float rounding (G14)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from grpo.toys import (
    RAGGED,
    gradient_of,
    make_groups,
    make_policy,
    relative,
    sample_groups,
    spec_of,
)
from hanse.grpo.objectives import OBJECTIVES
from hanse.grpo.step import assign_advantages
from hanse.policy.rollout import Group

TOLERANCE = 2e-6
PROMPTS = (*RAGGED, "99+1=", "5+5=", "250+250=", "8=")


def spec_for(objective: str, **changes):
    high = 1.2 if objective == "cispo" else 0.3
    baseline = {"baseline": "leave_one_out", "scale": "none"} if objective == "rloo" else {}
    return spec_of(objective=objective, prompts_per_step=8, clip_high=high, **baseline, **changes)


def off_policy(groups: list[Group]) -> list[Group]:
    """The same groups as if sampled from a slightly other policy: ratios differ from 1."""
    noise = torch.Generator().manual_seed(5)
    return [
        replace(g, logp_GT=g.logp_GT + 0.2 * torch.randn(g.logp_GT.shape, generator=noise)) for g in groups
    ]


@pytest.mark.parametrize("beta", [0.0, 0.1])
@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
def test_one_micro_batch_equals_eight_and_parts_of_groups(objective: str, beta: float):
    policy = make_policy()
    spec = spec_for(objective, beta=beta, iterations=2, mask_truncated=True)
    groups = off_policy(make_groups(policy, spec, PROMPTS))
    loss, gradient = gradient_of(policy, spec, groups)
    assert gradient.norm() > 1e-3
    for micro_batch in (4, 12, 2):  # one group, three, half a group
        other, g = gradient_of(policy, spec.model_copy(update={"micro_batch": micro_batch}), groups)
        assert other == pytest.approx(loss, rel=TOLERANCE, abs=TOLERANCE)
        assert relative(g, gradient) < TOLERANCE


@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
def test_the_order_of_groups_does_not_matter(objective: str):
    policy = make_policy()
    spec = spec_for(objective)
    groups = make_groups(policy, spec, PROMPTS)
    loss, gradient = gradient_of(policy, spec, groups)
    other, g = gradient_of(policy, spec, groups[::-1])
    assert other == pytest.approx(loss, abs=TOLERANCE)
    assert relative(g, gradient) < TOLERANCE


@pytest.mark.parametrize("objective", ["grpo", "dr_grpo", "rloo"])
def test_a_batch_is_the_mean_of_its_single_groups(objective: str):
    """Batch-mates and padding: each group alone is neither padded on the left nor beside longer ones."""
    policy = make_policy()
    spec = spec_for(objective)
    groups = make_groups(policy, spec, PROMPTS)
    _, gradient = gradient_of(policy, spec, groups)
    alone = [
        gradient_of(policy, spec, [g])[1] if bool(g.advantages_G.any()) else torch.zeros_like(gradient)
        for g in groups
    ]
    assert relative(torch.stack(alone).mean(0), gradient) < TOLERANCE


@pytest.mark.parametrize("objective", ["dapo", "bnpo", "cispo"])
def test_a_token_mean_is_the_token_weighted_mean_of_single_groups(objective: str):
    policy = make_policy()
    spec = spec_for(objective)
    groups = make_groups(policy, spec, PROMPTS)
    _, gradient = gradient_of(policy, spec, groups)
    tokens = torch.tensor([float(g.lengths_G.sum()) for g in groups])
    alone = [
        gradient_of(policy, spec, [g])[1] if bool(g.advantages_G.any()) else torch.zeros_like(gradient)
        for g in groups
    ]
    mean = (torch.stack(alone) * tokens.unsqueeze(1)).sum(0) / tokens.sum()
    assert relative(mean, gradient) < TOLERANCE


def test_wider_padding_of_completions_changes_nothing():
    policy = make_policy()
    spec = spec_of()
    groups = make_groups(policy, spec)
    wider = [_padded(g, 3, token=7) for g in groups]
    loss, gradient = gradient_of(policy, spec, groups)
    other, g = gradient_of(policy, spec, wider)
    assert other == pytest.approx(loss, abs=TOLERANCE)
    assert relative(g, gradient) < TOLERANCE


def _padded(g: Group, more: int, token: int) -> Group:
    def pad(t: torch.Tensor, value: float) -> torch.Tensor:
        return torch.nn.functional.pad(t, (0, more), value=value)

    return replace(g, tokens_GT=pad(g.tokens_GT, token), logp_GT=pad(g.logp_GT, -9.0))


def test_the_shared_prompt_and_the_plain_forward_give_the_same_gradient():
    policy = make_policy()
    spec = spec_of(iterations=2)
    groups = off_policy(make_groups(policy, spec))
    loss, gradient = gradient_of(policy, spec, groups)
    policy.shared_prompt = False
    other, g = gradient_of(policy, spec, groups)
    assert other == pytest.approx(loss, abs=TOLERANCE)
    assert relative(g, gradient) < TOLERANCE


def test_the_pad_token_does_not_matter():
    policy = make_policy()
    spec = spec_of()
    groups = make_groups(policy, spec)
    loss, gradient = gradient_of(policy, spec, groups)
    policy.pad_id = 9
    again = sample_groups(policy)
    for before, after in zip(groups, again, strict=True):
        after.rewards_G = before.rewards_G
    assign_advantages(again, spec)
    other, g = gradient_of(policy, spec, again)
    assert other == pytest.approx(loss, abs=TOLERANCE)
    assert relative(g, gradient) < TOLERANCE
