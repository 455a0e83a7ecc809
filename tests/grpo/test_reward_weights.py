from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo.toys import FixedScoring, gradient_of, make_groups, make_policy, relative, sample_groups, spec_of
from hanse.grpo.balancing import balance, parts_of
from hanse.grpo.learner import Learner
from hanse.grpo.part_gradients import last_layer
from hanse.grpo.reward_weights import (
    Balance,
    assign,
    floored,
    hypergradients,
    looked,
    moved,
    parted_advantages,
    started,
)
from hanse.grpo.step import assign_advantages, grpo_step
from hanse.policy.rollout import RewardParts
from hanse.policy.sampler import Sampler, Sampling
from hanse.recipe.reward_weights import RewardWeightsSpec
from hanse.tasks.scoring.scores import Scores

SPEC = RewardWeightsSpec(type="hypergradient", rate=0.5, floor=0.1)


def two_part_groups(policy, spec, second=lambda ids: len(ids) / 8, weights=(3.0, -1.0)):
    groups = make_groups(policy, spec)
    for g in groups:
        values = torch.stack([g.rewards_G, torch.tensor([second(ids) for ids in g.token_ids_G()]).double()])
        g.parts = RewardParts(("right", "long"), weights, values)
    return groups


def test_the_recipe_s_weights_are_where_it_starts_and_signs_stay_in_the_rewards():
    policy = make_policy()
    groups = two_part_groups(policy, spec_of())
    assert started(groups) == Balance((0.75, 0.25))
    apart = parted_advantages(groups, "mean", "none")
    long = torch.stack([g.parts.values_MG[1] for g in groups])
    assert torch.allclose(apart[1], long.mean(1, keepdim=True) - long)


def test_hypergradients_by_hand():
    primary, past = torch.tensor([1.0, 2.0]), torch.tensor([[3.0, 1.0], [0.0, -1.0], [0.0, 0.0]])
    assert hypergradients(primary, past, 10.0) == pytest.approx([0.5, -0.2, 0.0])


def test_a_move_by_hand():
    weights = moved((0.5, 0.5), (2.0, 0.0), rate=0.5, floor=0.0)
    assert weights == pytest.approx((math.e / (math.e + 1), 1 / (math.e + 1)))
    assert moved((0.5, 0.5), (1e9, 0.0), 0.5, 0.0) == pytest.approx(weights)  # e-fold at most


def test_looks_keep_the_last_gradients_and_a_smoothed_norm():
    first = looked(Balance((0.5, 0.5)), torch.tensor([[2.0, 0.0], [0.0, 1.0]]), SPEC)
    assert first.weights_M == (0.5, 0.5) and first.norm == 4.0
    second = looked(first, torch.tensor([[4.0, 2.0], [0.0, 0.0]]), SPEC)
    assert second.norm == pytest.approx(0.9 * 4 + 0.1 * 20)
    gains = [8 / 5.6, 2 / 5.6]
    raw = [0.5 * math.exp(0.5 * h) for h in gains]
    assert second.weights_M == pytest.approx([r / sum(raw) for r in raw])
    assert torch.equal(second.past_MN, torch.tensor([[4.0, 2.0], [0.0, 0.0]]))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_look_that_is_not_finite_is_forgotten(bad):
    """In the smoothed norm it would stay, and no weight would ever move again."""
    spec, good = RewardWeightsSpec(type="hypergradient"), torch.eye(2)
    start = looked(Balance((0.5, 0.5)), good, spec)
    assert looked(start, torch.tensor([[1.0, 0.0], [0.0, bad]]), spec) is start
    after = looked(start, good, spec)
    assert after.norm == 1.0 and after.weights_M[0] > 0.5


def test_a_saturated_reward_loses_weight_down_to_the_floor():
    """No variance, no gradient: its weight stands still while the primary one's grows."""
    state = Balance((0.5, 0.5))
    for _ in range(30):
        state = looked(state, torch.tensor([[1.0, 1.0], [0.0, 0.0]]), SPEC)
    assert state.weights_M == pytest.approx((0.9, 0.1))


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=6), st.floats(0, 0.5))
def test_floored_weights_sum_to_one_and_keep_their_order(raw, floor):
    weights = floored(raw, floor)
    assert math.fsum(weights) == pytest.approx(1)
    assert min(weights) >= min(floor, 1 / len(raw)) - 1e-12
    ranked = sorted(range(len(raw)), key=lambda m: raw[m])
    assert all(weights[a] <= weights[b] + 1e-12 for a, b in pairwise(ranked))


@pytest.mark.parametrize("objective", ["grpo", "dr_grpo", "dapo", "bnpo", "cispo", "gspo"])
def test_gradients_of_parts_add_up_to_the_learner_s(objective):
    """In the last layer, for every weight: what makes a hypergradient one."""
    policy = make_policy()
    spec = spec_of(objective=objective)
    groups = two_part_groups(policy, spec)
    weights = (0.7, 0.3)
    apart = parted_advantages(groups, spec.baseline, spec.scale)
    assign(groups, apart, weights)
    parts = Learner(policy, spec, 10).part_gradients(groups, apart)
    named = dict(policy.model.named_parameters())
    views = policy.parameters.views(gradient_of(policy, spec, groups)[1])
    wanted = [views[n].flatten() for n in sorted(named) if any(named[n] is p for p in last_layer(policy))]
    assert all(".layers.1." in n for n, p in named.items() if any(p is q for q in last_layer(policy)))
    assert relative(weights[0] * parts[0] + weights[1] * parts[1], torch.cat(wanted)) < 2e-6


def test_micro_batches_of_a_look_add_up():
    policy = make_policy()
    groups = two_part_groups(policy, spec_of())
    apart = parted_advantages(groups, "mean", "group")
    whole = Learner(policy, spec_of(), 10).part_gradients(groups, apart)
    small = Learner(policy, spec_of(micro_batch=2), 10).part_gradients(groups, apart)
    assert relative(small, whole) < 2e-6
    assert not Learner(policy, spec_of(), 10).part_gradients(groups, apart * 0).any()


def test_one_reward_compared_by_itself_is_the_plain_advantage():
    """Also of a second one that is the same: weights then do not matter."""
    policy = make_policy()
    spec = spec_of(reward_weights=SPEC)
    groups = two_part_groups(policy, spec)
    for g in groups:
        g.parts = replace(g.parts, values_MG=torch.stack([g.rewards_G] * 2), weights_M=(1.0, 2.0))
    learner = Learner(policy, spec, 10)
    for _ in range(2):
        balance(groups, spec, learner)
        learner.state.step += 1
    got = torch.stack([g.advantages_G for g in groups])
    assign_advantages(groups, spec)
    assert torch.allclose(got, torch.stack([g.advantages_G for g in groups]), atol=1e-12)


def test_looks_come_every_so_often_and_fixed_weights_stay():
    policy = make_policy()
    groups = two_part_groups(policy, spec_of())
    for kind, moves in (("fixed", [False] * 4), ("hypergradient", [False, False, True, False])):
        own = RewardWeightsSpec(type=kind, every=2)
        spec = spec_of(reward_weights=own)
        learner, seen = Learner(policy, spec, 10), [(0.75, 0.25)]
        for step in range(4):
            learner.state.step = step
            metrics = balance(groups, spec, learner)
            seen.append((metrics["rewards/right/weight"], metrics["rewards/long/weight"]))
        assert [a != b for a, b in pairwise(seen)] == moves


def test_an_unscored_completion_has_no_part_and_weightless_rewards_are_none():
    values = torch.tensor([[1.0, 0.0], [5.0, 5.0], [torch.nan, 2.0]], dtype=torch.float64).numpy()
    scores = Scores(("a", "seen", "b"), values[0] * torch.tensor([1.0, torch.nan]).numpy(), values)
    assert parts_of(scores, slice(0, 2)) is None
    parts = parts_of(replace(scores, weights_F=(1.0, 0.0, 2.0)), slice(0, 2))
    assert parts.names_M == ("a", "b") and parts.weights_M == (1.0, 2.0)
    assert parts.values_MG.isnan().tolist() == [[False, True], [True, True]]
    assert parts_of(replace(scores, weights_F=(1.0, 0.0, 0.0)), slice(0, 2)) is None


class TwoRewards(FixedScoring):
    def score(self, *arguments, **named):
        scores = super().score(*arguments, **named)
        values = torch.stack([torch.tensor(scores.totals_N), torch.tensor(scores.totals_N) ** 2]).numpy()
        return replace(scores, names_F=("a", "b"), values_FN=values, weights_F=(1.0, 0.5))


def test_a_step_says_its_weights_and_its_rewards_are_still_the_sum():
    policy = make_policy()
    problems = [g.problem for g in sample_groups(policy)]
    spec = spec_of(reward_weights=SPEC)
    learner = Learner(policy, spec, 10)
    sampler, scorer = Sampler(policy, Sampling(5)), TwoRewards(lambda p, ids: (sum(ids) % 5) / 4)
    for step in range(2):
        result = grpo_step(lambda n, s=step: (problems[:n], range(s, s + n)), sampler, scorer, learner)
    a, b = result.metrics["rewards/a/weight"], result.metrics["rewards/b/weight"]
    assert a + b == pytest.approx(1) and a != pytest.approx(2 / 3)
    assert learner.state.balance.weights_M == (a, b)
    assert 0 <= result.metrics["reward"] <= 1
