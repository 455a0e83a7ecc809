"""G3: a reward of None or NaN spreads through mean and std. Here: excluded from statistics and loss."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from grpo.toys import FixedScoring, gradient_of, make_policy, problems_of, sample_groups, spec_of
from hanse.grpo.learner import Learner
from hanse.grpo.objectives import OBJECTIVES
from hanse.grpo.step import assign_advantages, grpo_step
from hanse.policy.sampler import Sampler, Sampling

NAN = float("nan")


def test_statistics_and_metrics_ignore_unscored_completions():
    policy = make_policy()
    rewards = iter([1.0, None, 0.0, None] + [None] * 4 + [None, None, None, 1.0] + [1.0, 0.0, 1.0, 0.0])
    learner = Learner(policy, spec_of(), 10)
    result = grpo_step(
        lambda n: (problems_of(), list(range(n))),
        Sampler(policy, Sampling(5)),
        FixedScoring(lambda *_: next(rewards)),
        learner,
    )
    advantages = torch.stack([g.advantages_G for g in result.groups])
    assert advantages.isfinite().all()
    assert advantages[1:3].tolist() == [[0.0] * 4] * 2
    assert advantages[0, 1] == advantages[0, 3] == 0
    assert result.metrics["reward"] == pytest.approx((0.5 + 1.0 + 0.5) / 3)
    assert result.metrics["unscored"] == 9
    assert result.metrics["unscored/exception"] == 9
    assert all(value == value for value in result.metrics.values())
    assert policy.parameters.master.isfinite().all()


@pytest.mark.parametrize("objective", sorted(set(OBJECTIVES) - {"dr_grpo"}))
def test_an_unscored_completion_counts_in_no_denominator(objective: str):
    """The gradient with an unscored completion is that of the group without it."""
    policy = make_policy()
    spec = spec_of(objective=objective, clip_high=0.3 if objective != "cispo" else 1.2)
    (g,) = sample_groups(policy, ("13+25=",), G=4)
    g.rewards_G = torch.tensor([1.0, 0.0, NAN, 0.25], dtype=torch.float64)
    assign_advantages([g], spec)
    keep = [0, 1, 3]
    smaller = replace(
        g,
        tokens_GT=g.tokens_GT[keep],
        lengths_G=g.lengths_G[keep],
        terminated_G=g.terminated_G[keep],
        logp_GT=g.logp_GT[keep],
        rewards_G=g.rewards_G[keep],
        advantages_G=g.advantages_G[keep],
    )
    loss, gradient = gradient_of(policy, spec, [g])
    other, without = gradient_of(policy, spec.model_copy(update={"group_size": 3}), [smaller])
    assert loss == pytest.approx(other, abs=1e-6)
    torch.testing.assert_close(gradient, without, rtol=1e-4, atol=1e-6)


def test_a_batch_in_which_nothing_was_scored_is_skipped():
    policy = make_policy()
    before = policy.parameters.sha256()
    groups = sample_groups(policy)
    for g in groups:
        g.rewards_G = torch.full((4,), NAN, dtype=torch.float64)
    assign_advantages(groups, spec_of())
    learner = Learner(policy, spec_of(), 10)
    learner.step(groups)
    assert learner.state.counters["skipped_steps"] == 1
    assert policy.parameters.sha256() == before
