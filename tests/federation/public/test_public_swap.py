"""Who gives way to whom, by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanse.federation.public.swap import (
    Offer,
    in_turn,
    mixed,
    right_places,
    wanted,
    weights_of,
    wrong_places,
)
from hanse.grpo.step import assign_advantages
from hanse.policy.rollout import Group
from hanse.recipe.model import GrpoSpec
from hanse.recipe.public import PublicSpec
from hanse.tasks.problem import Problem

NAN = float("nan")
SPEC = PublicSpec(problems=8, most=2, below=0.5)


def group(rewards=(0.0, 1.0, 0.0, 0.0), kept=None) -> Group:
    return Group(
        problem=Problem("p", "1+1="),
        prompt_ids=(3, 4),
        tokens_GT=torch.arange(8).view(4, 2),
        lengths_G=torch.tensor([2, 2, 1, 2]),
        terminated_G=torch.tensor([True, True, False, True]),
        logp_GT=-torch.ones(4, 2),
        kept_logp_GT=kept,
        rewards_G=torch.tensor(rewards, dtype=torch.float64),
    )


def offer(peer=1, ids=(9, 8, 1), weight=1.0) -> Offer:
    return Offer(peer, ids, True, 1.0, torch.full((len(ids),), -0.25), weight)


@pytest.mark.parametrize(
    ("right", "expected"),
    [(0, 2), (1, 2), (2, 2), (3, 2), (4, 0), (8, 0)],  # of 8: fewer than 4 are correct, or not
)
def test_groups_with_half_of_them_correct_take_nothing(right, expected):
    assert wanted(right, 8, SPEC) == expected


def test_no_more_than_there_are_wrong_ones():
    whole = PublicSpec(problems=8, most=4, below=1.0)
    assert [wanted(right, 4, whole) for right in range(5)] == [4, 3, 2, 1, 0]


def test_wrong_places_are_the_first_wrong_ones_and_no_unscored_one():
    rewards = torch.tensor([0.0, NAN, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0])
    assert right_places(rewards, 1.0) == [2]
    assert wrong_places(rewards, SPEC) == [0, 3]
    assert wrong_places(torch.full((8,), NAN), SPEC) == []
    assert wrong_places(torch.tensor([1.0, 1.0, 0.0, 0.0]), SPEC) == []  # 2 of 4 is not below a half


def test_peers_take_turns_in_the_given_order():
    answers = {1: ["a", "b"], 2: ["c"], 5: ["d", "e", "f"]}
    assert in_turn(answers, [5, 1, 2], 4) == [(5, "d"), (1, "a"), (2, "c"), (5, "e")]
    assert in_turn(answers, [2, 5, 1], 0) == []
    assert in_turn({}, [], 3) == []


@given(st.dictionaries(st.integers(0, 5), st.lists(st.integers(), max_size=6)), st.integers(0, 12))
def test_nobody_can_crowd_others_out(answers, most):
    taken = in_turn(answers, sorted(answers), most)
    assert len(taken) == min(most, sum(map(len, answers.values())))
    counts = {k: sum(peer == k for peer, _ in taken) for k in answers}
    # who has fewer than another has given all that it shows, or is one turn behind
    assert all(counts[a] + 1 >= counts[b] or counts[a] == len(answers[a]) for a in answers for b in answers)


def test_a_mixed_group_by_hand():
    before = group()
    got = mixed(before, [0, 2], [offer(), offer(2, (7,))])
    assert got.token_ids_G() == [[9, 8, 1], [2, 3], [7], [6, 7]]
    assert got.terminated_G.tolist() == [True, True, True, True]
    assert got.rewards_G is not None
    assert got.rewards_G.tolist() == [1.0, 1.0, 1.0, 0.0]
    assert got.logp_GT[0].tolist() == [-0.25] * 3
    assert got.logp_GT[1].tolist() == [-1.0, -1.0, 0.0]
    assert before.token_ids_G() == [[0, 1], [2, 3], [4], [6, 7]]  # not changed in place
    assert before.rewards_G is not None
    assert before.rewards_G.tolist() == [0.0, 1.0, 0.0, 0.0]


def test_advantages_are_of_the_mixed_rewards_and_weighted_where_foreign():
    """Rewards 1, 1, 0, 0 have mean 1/2 and population deviation 1/2: advantages 1, 1, -1, -1."""
    got = mixed(group(), [0], [offer(weight=0.25)])
    spec = GrpoSpec(group_size=4, scale="none")
    assign_advantages([got], spec)
    assert got.advantages_G is not None
    assert got.advantages_G.tolist() == [0.5, 0.5, -0.5, -0.5]
    weighted = got.advantages_G * weights_of(4, [0], [offer(weight=0.25)])
    assert weighted.tolist() == [0.125, 0.5, -0.5, -0.5]


def test_what_was_cut_of_a_group_is_not_cut_of_a_foreign_answer():
    got = mixed(group(kept=torch.full((4, 2), -0.5)), [0], [offer()])
    assert got.kept_logp_GT is not None
    assert got.kept_logp_GT[:2].tolist() == [[0.0] * 3, [-0.5, -0.5, 0.0]]


def test_without_offers_a_group_is_what_it_was():
    before, got = group(), mixed(group(), [0, 2], [])
    assert torch.equal(got.tokens_GT, before.tokens_GT)
    assert torch.equal(got.logp_GT, before.logp_GT)
    assert weights_of(4, [0, 2], []).tolist() == [1.0] * 4
