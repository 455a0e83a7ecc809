"""G2: std per function or across groups hides that nothing is learnt. Here: within groups, of the sum."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from grpo.toys import make_policy, sample_groups, spec_of
from hanse.grpo.step import assign_advantages, rollout_metrics, score_groups
from hanse.policy.sampler import Sampler, Sampling
from hanse.tasks.scoring.pieces import Outcome
from hanse.tasks.scoring.scores import combine


class Cancelling:
    """Two functions whose values differ within groups, and whose sum does not."""

    def score(self, problems_N, completions_N, completion_ids_N=None, *, group_size=None):
        up = [float(i % 2) for i in range(len(problems_N))]
        return combine(("up", "down"), [1, 1], [Outcome(up), Outcome([1 - v for v in up])], len(up))


def metrics_of(rewards: np.ndarray) -> dict[str, float]:
    groups = sample_groups(make_policy(), ("1+2=", "7="), G=4)
    for g, row in zip(groups, rewards, strict=True):
        g.rewards_G = torch.tensor(row)
    assign_advantages(groups, spec_of())
    return rollout_metrics(groups)


def test_functions_that_cancel_have_no_signal_and_the_metrics_say_so():
    policy = make_policy()
    groups = sample_groups(policy)
    scores = score_groups(groups, Sampler(policy, Sampling(5)), Cancelling())
    assert scores.values_FN.std(1).tolist() == [0.5, 0.5]
    assign_advantages(groups, spec_of())
    metrics = rollout_metrics(groups)
    assert metrics["reward_std"] == 0
    assert metrics["frac_reward_zero_std"] == 1
    assert metrics["policy_grad_signal"] == 0


def test_the_std_is_within_groups_and_not_across_them():
    across = metrics_of(np.array([[0.0] * 4, [1.0] * 4]))
    assert (across["reward"], across["reward_std"]) == (0.5, 0.0)
    within = metrics_of(np.array([[0.0, 1, 0, 1], [0.0, 1, 0, 1]]))
    assert within["reward_std"] == pytest.approx((1 / 3) ** 0.5)
