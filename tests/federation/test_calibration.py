"""Calibration: off is off, weights by hand, mean one."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanse.federation.calibration import calibrate, prompt_weights
from hanse.grpo.advantages import group_advantages
from hanse.policy.rollout import Group
from hanse.recipe.federation import CalibrationSpec
from hanse.tasks.problem import Problem


def groups_of(rows: list[list[float]]) -> list[Group]:
    rewards = torch.tensor(rows)
    advantages = group_advantages(rewards)
    return [
        Group(
            problem=Problem(f"p{i}", "1+1=", "2"),
            prompt_ids=(1,),
            tokens_GT=torch.zeros(len(row), 1, dtype=torch.long),
            lengths_G=torch.ones(len(row), dtype=torch.long),
            terminated_G=torch.ones(len(row), dtype=torch.bool),
            logp_GT=torch.zeros(len(row), 1),
            rewards_G=rewards[i],
            advantages_G=advantages[i],
        )
        for i, row in enumerate(rows)
    ]


ROWS = [[1.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0]]
"""Means 0.75, 0.25, 0 and 0.5; the third has no signal."""


def factors(global_mean: float | None = 0.5, rows=ROWS, **options) -> list[float]:
    """By what calibration multiplied each informative group's advantages."""
    groups, before = groups_of(rows), groups_of(rows)
    calibrate(groups, global_mean, CalibrationSpec(**options))
    ratios = []
    for group, old in zip(groups, before, strict=True):
        moving = old.advantages_G != 0
        assert torch.equal(group.advantages_G[~moving], old.advantages_G[~moving])
        if moving.any():
            ratios.append(float((group.advantages_G / old.advantages_G)[moving].mean()))
    return ratios


@pytest.mark.parametrize(
    ("global_mean", "options"),
    [
        (0.5, {"strength": 0.0}),
        (0.5, {"strength": 0.0, "form": "exponential", "pivot": "local"}),
        (None, {"strength": 1.0}),
        (None, {"strength": 3.0, "form": "exponential"}),
    ],
)
def test_off_and_the_first_round_leave_advantages_bit_identical(global_mean, options):
    groups, before = groups_of(ROWS), groups_of(ROWS)
    calibrate(groups, global_mean, CalibrationSpec(**options))
    assert all(torch.equal(g.advantages_G, b.advantages_G) for g, b in zip(groups, before, strict=True))


@pytest.mark.parametrize("pivot", ["local", "constant"])
def test_other_pivots_need_no_global_mean(pivot):
    assert factors(None, strength=1.0, pivot=pivot) != [1.0, 1.0, 1.0]


def test_linear_by_hand():
    """1 + (0.5 - m): 0.75, 1.25, (1.5), 1; the informative ones have mean 1 already."""
    assert factors(0.5, strength=1.0) == pytest.approx([0.75, 1.25, 1.0])
    assert factors(0.75, strength=1.0) == pytest.approx([1 / 1.25, 1.5 / 1.25, 1.0])


def test_groups_without_signal_weigh_in_the_mean_only_where_asked():
    mean = (0.75 + 1.25 + 1.5 + 1.0) / 4
    assert factors(0.5, strength=1.0, normalise="all") == pytest.approx([0.75 / mean, 1.25 / mean, 1 / mean])


def test_exponential_by_hand():
    raw = [math.exp(2 * (0.5 - m)) for m in (0.75, 0.25, 0.5)]
    expected = [r * 3 / sum(raw) for r in raw]
    assert factors(0.5, strength=2.0, form="exponential") == pytest.approx(expected)


def test_clipping_comes_before_normalising():
    """1 + 4 (0.5 - m): 0, 2, (3), 1 becomes 0.25, 1.5, 1."""
    total = 0.25 + 1.5 + 1
    weights = factors(0.5, strength=4.0, low=0.25, high=1.5)
    assert weights == pytest.approx([0.75 / total, 4.5 / total, 3 / total])


def test_pivots_by_hand():
    """The mean of the group means is 0.375."""
    raw = [1 + 0.375 - m for m in (0.75, 0.25, 0.5)]
    assert factors(0.9, strength=1.0, pivot="local") == pytest.approx([3 * r / sum(raw) for r in raw])
    raw = [1 + 0.3 - m for m in (0.75, 0.25, 0.5)]
    weights = factors(0.9, strength=1.0, pivot="constant", constant=0.3)
    assert weights == pytest.approx([3 * r / sum(raw) for r in raw])


@given(
    st.lists(st.tuples(st.floats(0, 1, width=32), st.booleans()), min_size=1, max_size=8),
    st.floats(0, 1),
    st.floats(0, 50),
    st.sampled_from(["linear", "exponential"]),
)
def test_weights_have_mean_one_over_counted_groups(prompts, pivot, strength, form):
    mean = torch.tensor([m for m, _ in prompts])
    counted = torch.tensor([c for _, c in prompts])
    weights = prompt_weights(mean, counted, pivot, CalibrationSpec(strength=strength, form=form))
    assert bool((weights >= 0).all())
    if counted.any():
        assert float(weights[counted].mean()) == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize("rows", [[[0.0, 0.0], [1.0, 1.0]], [[float("nan")] * 2, [float("nan")] * 2]])
def test_a_step_without_signal_stays_at_zero(rows):
    groups = groups_of(rows)
    calibrate(groups, 0.5, CalibrationSpec(strength=2.0))
    assert all(torch.equal(g.advantages_G, torch.zeros(2)) for g in groups)


def test_behind_the_federation_counts_more():
    ahead, behind, level = factors(0.5, strength=1.0)
    assert ahead < level < behind
