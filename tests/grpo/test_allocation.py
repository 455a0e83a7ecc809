"""Predicted variance: averages by hand, chances of being drawn."""

from __future__ import annotations

import pytest
import torch

from hanse.grpo.allocation import FLOOR, absorbed, predicted, probabilities, unseen
from hanse.policy.rollout import Group
from hanse.tasks.problem import Problem

NAN, NEVER = float("nan"), -1.0


def group_of(rewards: list[float]) -> Group:
    size = len(rewards)
    tokens, ended = torch.zeros(size, 1, dtype=torch.long), torch.ones(size, dtype=torch.bool)
    scored = torch.tensor(rewards, dtype=torch.float64)
    return Group(Problem("p", "1="), (1,), tokens, ended.long(), ended, torch.zeros(size, 1), None, scored)


def known(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_what_was_never_tried_counts_like_the_mean_of_the_rest():
    assert predicted(unseen(3)).tolist() == [0.5] * 3
    assert predicted(known(0.2, NEVER, 0.4)).tolist() == pytest.approx([0.2, 0.3, 0.4])


def test_chances_go_with_the_deviation_and_have_a_floor():
    chances = probabilities(known(0.5, 0.2, 0.0, 1.0))
    assert float(chances.sum()) == pytest.approx(1)
    assert (chances / chances[0]).tolist() == pytest.approx([1, 0.8, 2 * FLOOR, 2 * FLOOR])
    assert probabilities(unseen(4)).tolist() == [0.25] * 4


def test_averages_by_hand():
    before = known(NEVER, 0.4, NEVER, 0.8)
    groups = [group_of([1.0, 0.0, NAN, 1.0]), group_of([1.0, 1.0]), group_of([NAN, NAN]), group_of([1.0])]
    after = absorbed(before, [0, 1, 2, 1], groups)
    assert after[:2].tolist() == pytest.approx([(0.6 + 2 / 3) / 2, ((0.4 + 1) / 2 + 1) / 2])
    assert after[2:].tolist() == [NEVER, 0.8]
    assert before.tolist() == [NEVER, 0.4, NEVER, 0.8]


def test_rewards_outside_of_chances_are_cut():
    after = absorbed(known(0.5, 0.5), [0, 1], [group_of([3.0, 3.0]), group_of([-2.0, 0.5])])
    assert after.tolist() == [0.75, 0.375]
