"""Bags of tokens: GRPO where no token is told apart, and the statistics of their equations."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hanse.grpo.advantages import EPSILON, group_advantages
from hanse.grpo.shaping.bot import settled, spread_over, token_advantages
from hanse.grpo.shaping.shape import token_credit
from hanse.policy.rollout import length_mask
from hanse.recipe.shaping import BotSpec
from tests.grpo.shaping.groups import decode, group_of

NAN = math.nan


def tensor(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def mask_of(lengths: list[list[int]]) -> Tensor:
    flat = torch.tensor(lengths)
    return length_mask(flat.flatten(), int(flat.max())).view(*flat.shape, -1)


@st.composite
def bags(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    """Global rewards (P, G), local rewards (P, G, T) and a mask."""
    P, G = draw(st.integers(1, 3)), draw(st.integers(2, 5))
    lengths = [[draw(st.integers(1, 6)) for _ in range(G)] for _ in range(P)]
    reward = st.floats(-3, 3, width=16)
    rewards = [[draw(st.one_of(reward, st.just(NAN))) for _ in range(G)] for _ in range(P)]
    mask = mask_of(lengths)
    local = [draw(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0])) for _ in range(mask.numel())]
    return tensor(rewards), tensor(local).view_as(mask), mask


@given(bags(), st.booleans())
def test_without_local_rewards_every_bit_is_grpos_with_the_population_std(bag, scaled: bool) -> None:
    rewards, local, mask = bag
    ours = token_advantages(rewards, torch.zeros_like(local), mask, scaled=scaled)
    theirs = group_advantages(rewards, scale="group_population" if scaled else "none").unsqueeze(-1)
    assert torch.equal(ours, torch.where(mask, theirs, 0.0))


def test_two_of_four_right_give_one_and_minus_one() -> None:
    mask = mask_of([[1, 5, 2, 9]])
    found = token_advantages(tensor([[1.0, 0, 1, 0]]), torch.zeros(1, 4, 9), mask, epsilon=0.0)
    assert found[0, :, 0].tolist() == [1.0, -1.0, 1.0, -1.0]


def test_by_hand() -> None:
    # rewards of tokens: [1.5, 0.5], [0, 0, 0, 0]; means 1 and 0, mu = 0.5
    # sigma² = 1/2 (1/2 (1 + 0) + 1/4 (4 · 0.25)) = 1/2 (0.5 + 0.25) = 0.375
    local = tensor([[[0.5, -0.5, 9, 9], [0, 0, 0, 0]]])
    found = token_advantages(tensor([[1.0, 0.0]]), local, mask_of([[2, 4]]))
    sigma = math.sqrt(0.375) + EPSILON
    expected = [[1.0 / sigma, 0.0, 0.0, 0.0], [-0.5 / sigma] * 4]
    torch.testing.assert_close(found[0], tensor(expected), rtol=1e-12, atol=1e-12)
    centred = token_advantages(tensor([[1.0, 0.0]]), local, mask_of([[2, 4]]), scaled=False)
    assert centred[0].tolist() == [[1.0, 0.0, 0.0, 0.0], [-0.5] * 4]


@given(bags())
def test_the_bag_has_mean_zero_and_second_moment_one(bag) -> None:
    rewards, local, mask = bag
    found = token_advantages(rewards, local, mask, epsilon=0.0)
    lengths, scored = mask.sum(-1).double(), ~rewards.isnan()
    for p in range(len(rewards)):
        if not bool(found[p].any()) or float(found[p].abs().max()) > 1e6:
            continue  # no difference, or one of rounding only
        weights = mask[p] / lengths[p].unsqueeze(-1) * scored[p].unsqueeze(-1) / scored[p].sum()
        assert float((weights * found[p]).sum()) == pytest.approx(0, abs=1e-9)
        assert float((weights * found[p].square()).sum()) == pytest.approx(1, rel=1e-9)


@given(bags())
def test_writing_every_token_twice_changes_nothing(bag) -> None:
    rewards, local, mask = bag
    once = token_advantages(rewards, local, mask)
    doubled_mask = mask_of((mask.sum(-1) * 2).tolist())
    width = doubled_mask.shape[-1]
    twice = token_advantages(rewards, local.repeat_interleave(2, -1)[..., :width], doubled_mask)
    spread = once.repeat_interleave(2, -1)[..., :width]
    torch.testing.assert_close(twice, spread, rtol=1e-9, atol=1e-9)


def test_unscored_completions_and_equal_groups_get_exactly_zero() -> None:
    local = torch.zeros(2, 3, 2, dtype=torch.float64)
    local[0, 1] = tensor([1.0, -1.0])
    found = token_advantages(tensor([[NAN, 0.3, 0.3], [0.1] * 3]), local, mask_of([[2, 2, 2]] * 2))
    assert found[0, 0].tolist() == [0.0, 0.0]
    assert found[0, 1, 0] > 0 > found[0, 1, 1]  # equal rewards, told apart inside
    assert found[1].tolist() == [[0.0, 0.0]] * 3


def test_errors_propagate() -> None:
    assert settled([1, 0, -1, 1, -1], "none") == [1, 0, -1, 0, 0]
    assert settled([1, 0, -1, 1, -1], "own") == [1, 0, -1, 1, -1]
    assert settled([1, 1], "none") == [1, 1]


def test_verdicts_are_spread_over_the_tokens_of_their_steps() -> None:
    row = spread_over([range(1, 3), range(2, 4)], [1, -1], 5)
    assert row.tolist() == [0.0, 0.5, 0.0, -0.5, 0.0]
    assert spread_over([], [], 2).tolist() == [0.0, 0.0]


def test_a_group_of_texts_from_rewards_to_advantages() -> None:
    texts = ["1+1=2;2+2=5", "1+1=2;no sum"]
    group = group_of("p", texts)
    rewards = tensor([[0.0, 1.0]])
    spec = BotSpec(enabled=True, global_weight=2.0, local_weight=0.5)
    metrics = token_credit([group], [texts], rewards, spec, decode, scaled=False)
    # token rewards: steps of 5 and 5, 5 and 6 characters, verdicts (1, -1) and (1, 0), each over 2 steps
    first = [0.25] * 5 + [0.0] + [-0.25] * 5
    second = [2.25] * 5 + [2.0] * 7
    mu = (sum(first) / 11 + sum(second) / 12) / 2
    assert group.advantages_GT is not None and group.advantages_G is not None
    assert group.advantages_GT[0, :11].tolist() == pytest.approx([r - mu for r in first])
    assert group.advantages_GT[0, 11] == 0.0
    assert group.advantages_GT[1].tolist() == pytest.approx([r - mu for r in second])
    assert group.advantages_G.tolist() == pytest.approx([sum(first) / 11 - mu, sum(second) / 12 - mu])
    assert metrics["shaping/steps"] == 2.0 and metrics["shaping/unjudged"] == 0.0
    assert metrics["shaping/right_steps"] == 0.5 and metrics["shaping/wrong_steps"] == 0.25
