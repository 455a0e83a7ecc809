"""Advantages of tokens: where all of a rollout's are equal, every bit is as without them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from grpo.toys import make_groups, sample_groups, spec_of
from grpo.written import ADVANTAGES, LOGP, MASK, TOTALS, inputs
from hanse.grpo.batch import pack, without_idle_groups
from hanse.grpo.learner import Learner
from hanse.grpo.objectives import OBJECTIVES
from hanse.policy.policy import Policy

TOKEN_LEVEL = ["bnpo", "cispo", "dapo", "dr_grpo", "grpo"]
SPREAD = ADVANTAGES.unsqueeze(-1).expand(LOGP.shape)


@pytest.mark.parametrize("name", TOKEN_LEVEL)
def test_equal_advantages_of_tokens_give_the_same_bits(name: str) -> None:
    found = []
    for own in (None, SPREAD.clone()):
        logp = LOGP.nan_to_num(nan=-1.0).requires_grad_()
        loss = OBJECTIVES[name](inputs(logp, advantages_NT=own))
        loss.value.backward()
        assert logp.grad is not None
        found.append((loss.value.detach(), logp.grad, loss.sums))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])
    assert found[0][2] == found[1][2]


def test_a_token_counts_by_its_own_advantage() -> None:
    own = torch.tensor([[1.0, 0.0, 2.0], [0.0, -3.0, 9.0]], dtype=torch.float64)
    # ratios 1, 1.5, 0.5 and 1.5, 0.5: the clip of 0.8 to 1.3 acts on the last, as A < 0 there
    expected = (-(1.0 + 0.0 + 2.0 * 0.5) / 3 + (0.0 + 3.0 * 0.8) / 2) / 2
    loss = OBJECTIVES["grpo"](inputs(advantages_NT=own))
    assert float(loss.value) == pytest.approx(expected, rel=1e-12)
    assert int(loss.sums["clipped_low"]) == 1
    assert TOTALS.sequences == 2 and int(MASK.sum()) == 5


@pytest.mark.parametrize("changes", [{}, {"mini_batches": 2, "iterations": 2}, {"micro_batch": 2}])
def test_a_learner_takes_the_same_step(policy: Policy, changes: dict[str, int]) -> None:
    start = policy.parameters.master.clone()
    ends = []
    for spread in (False, True):
        policy.parameters.load(start)
        spec = spec_of(**changes)
        groups = make_groups(policy, spec)
        for g in groups:
            assert g.advantages_G is not None
            if spread:
                g.advantages_GT = g.advantages_G.unsqueeze(-1).expand(g.tokens_GT.shape).clone()
        Learner(policy, spec, total_steps=4).step(groups)
        ends.append(policy.parameters.master.clone())
    assert not torch.equal(ends[0], start)
    assert torch.equal(*ends)


def test_groups_with_and_without_are_packed_together(policy: Policy) -> None:
    first, second = sample_groups(policy, ("1+2=", "7="), G=2, T=4)
    first.advantages_G, second.advantages_G = torch.tensor([0.5, -0.5]), torch.zeros(2)
    second.advantages_GT = torch.zeros(second.tokens_GT.shape)
    second.advantages_GT[1, 0] = 2.0
    batch = pack([first, second])
    assert batch.advantages_PGT is not None
    assert batch.advantages_PGT[0, :, 0].tolist() == [0.5, -0.5]
    assert batch.advantages_PGT[1, 1, 0] == 2.0
    cut = batch.select([1], slice(1, 2))
    assert cut.advantages_PGT is not None and cut.advantages_PGT.shape == cut.tokens_PGT.shape
    # its advantages cancel in no rollout's mean, so a group is not idle because those means are 0
    assert without_idle_groups(batch).prompts_P == batch.prompts_P
    idle = replace(batch, advantages_PGT=torch.zeros_like(batch.advantages_PGT))
    assert without_idle_groups(idle).prompts_P == []


def test_weighing_a_group_weighs_its_tokens(policy: Policy) -> None:
    (group,) = sample_groups(policy, ("1+2=",), G=2, T=3)
    group.advantages_G, group.advantages_GT = torch.tensor([1.0, -1.0]), torch.ones(2, 3)
    group.weigh(0.5)
    assert group.advantages_G.tolist() == [0.5, -0.5]
    assert group.advantages_GT.tolist() == [[0.5] * 3] * 2
