"""Signals of rewards by hand, and the bound that honest ones keep."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanse.federation.signal import Signal, largest_std, measure
from tests.federation.test_calibration import groups_of

NAN = float("nan")


def signal_of(*steps: list[list[float]], samples: int = 9, **more) -> Signal:
    return measure([groups_of(rows) for rows in steps], samples, **more)


def test_by_hand():
    """Means 0.5, 1, 0.25 and 0; deviations 0.5, 0, sqrt(3)/4 and 0."""
    first = [[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
    last = [[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    signal = signal_of(first, last, updates=3, coherence=0.5)
    assert signal.reward_mean == pytest.approx(0.4375)
    assert signal.reward_std == pytest.approx((0.5 + math.sqrt(3) / 4) / 4)
    assert signal.reward_std_pooled == pytest.approx(math.sqrt(0.4375 * 0.5625))
    assert (signal.reward_first, signal.reward_last) == pytest.approx((0.75, 0.125))
    assert (signal.groups, signal.informative, signal.partial) == (4, 2, 0)
    assert (signal.samples, signal.updates, signal.coherence) == (9, 3, 0.5)


def test_unscored_rollouts_do_not_count():
    signal = signal_of([[1.0, 0.0, NAN, NAN], [NAN] * 4, [1.0, 1.0, 1.0, NAN]])
    assert signal.reward_mean == pytest.approx(0.75)
    assert signal.reward_std == pytest.approx(0.25)
    assert signal.reward_std_pooled == pytest.approx(0.4)
    assert (signal.groups, signal.informative, signal.partial) == (2, 1, 3)


def test_nothing_scored_is_no_signal():
    signal = signal_of([[NAN] * 4, [NAN] * 4], updates=2)
    assert signal == Signal(0.0, 0.0, 0, 0, 9, updates=2)


def test_a_step_in_which_nothing_was_scored_has_mean_zero():
    signal = signal_of([[NAN] * 4], [[1.0, 0.0, 1.0, 0.0]])
    assert (signal.reward_first, signal.reward_last) == (0.0, 0.5)


@pytest.mark.parametrize("size", [2, 3, 8, 16])
def test_the_largest_deviation_is_exact_at_grid_points(size):
    for hits in range(size + 1):
        rewards = torch.tensor([1.0] * hits + [0.0] * (size - hits), dtype=torch.float64)
        bound = largest_std(hits / size, 0.0, 1.0, size)
        assert bound == pytest.approx(float(rewards.std(correction=0)))
        wide = largest_std(-3 + 7 * hits / size, -3.0, 4.0, size)
        assert wide == pytest.approx(7 * bound, abs=1e-6)


def test_between_grid_points_it_is_tighter_than_the_parabola():
    assert largest_std(0.5, 0.0, 1.0, 3) == pytest.approx(math.sqrt(2) / 3)
    assert largest_std(0.0625, 0.0, 1.0, 8) == pytest.approx(math.sqrt(7) / 16)
    assert largest_std(0.0625, 0.0, 1.0, 8) < math.sqrt(0.0625 * 0.9375)
    assert largest_std(2.0, 1.0, 1.0, 8) == 0.0


@given(
    st.floats(-5, 5, width=32),
    st.floats(0, 10, width=32),
    st.integers(2, 8).flatmap(
        lambda size: st.lists(
            st.lists(st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1)), min_size=size, max_size=size),
            min_size=1,
            max_size=5,
        )
    ),
)
def test_no_rewards_within_bounds_exceed_it(low, width, shares):
    high = low + width
    rewards = torch.tensor([[low + s * width for s in row] for row in shares], dtype=torch.float64)
    mean = float(rewards.mean(-1).mean())
    std = float(rewards.std(-1, correction=0).mean())
    assert std <= largest_std(mean, low, high, rewards.shape[1]) + 1e-6
