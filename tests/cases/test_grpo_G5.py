"""G5: wrong prompt ids make groups of one. Here a group is one problem's rollouts by construction."""

from __future__ import annotations

import pytest
import torch

from grpo.toys import make_policy, problems_of, sample_groups, spec_of
from hanse.grpo.batch import pack
from hanse.grpo.step import assign_advantages
from hanse.policy.sampler import Sampler, Sampling
from hanse.tasks.problem import Problem


def test_each_group_holds_g_rollouts_of_its_own_problem():
    policy = make_policy()
    problems = problems_of()
    groups = Sampler(policy, Sampling(5)).sample(problems, 4, [1, 2, 3, 4])
    assert [g.problem for g in groups] == problems
    assert [g.size for g in groups] == [4] * 4
    assert [g.prompt_ids for g in groups] == [policy.encode(p.prompt) for p in problems]


def test_two_problems_with_the_same_prompt_are_two_groups():
    """Keyed by problem, not by text: each has statistics of its own."""
    policy = make_policy()
    twins = [Problem("a", "1+2="), Problem("b", "1+2=")]
    groups = Sampler(policy, Sampling(5)).sample(twins, 4, [1, 2])
    for g, rewards in zip(groups, ([0.0, 0, 0, 1], [1.0, 1, 1, 1]), strict=True):
        g.rewards_G = torch.tensor(rewards)
    assign_advantages(groups, spec_of(scale="none"))
    assert groups[0].advantages_G.tolist() == [-0.25, -0.25, -0.25, 0.75]
    assert groups[1].advantages_G.tolist() == [0.0] * 4


def test_groups_of_unequal_size_cannot_be_mixed_into_one_batch():
    policy = make_policy()
    groups = sample_groups(policy, ("1+2=",), G=4) + sample_groups(policy, ("7=",), G=3)
    for g in groups:
        g.rewards_G = torch.zeros(g.size)
        g.advantages_G = torch.zeros(g.size)
    with pytest.raises(ValueError, match=r"groups of one size, got \[3, 4\]"):
        pack(groups)
