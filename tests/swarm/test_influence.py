"""The values of the reference page (Hail to the Thief, A.9)."""

from __future__ import annotations

import math

import pytest
import torch

from hanse.grpo.advantages import group_advantages
from hanse.swarm.influence import against_binary, against_failures, against_normal

NORMAL = {
    0.0: (0.215, 0.324, 0.392, 0.437, 0.476, 0.455),
    0.4: (0.166, 0.270, 0.343, 0.392, 0.439, 0.430),
    0.8: (0.068, 0.127, 0.173, 0.214, 0.262, 0.267),
}
BINARY = {
    0.05: (0.398, 0.051),
    0.2: (0.315, 0.164),
    0.4: (0.231, 0.250),
    0.7: (0.133, 0.255),
    0.95: (0.031, 0.079),
}


def test_half_of_a_failing_group_is_worth_most():
    assert against_failures(0.5) == 0.5
    assert against_failures(0.2) == pytest.approx(0.4)
    assert max(range(1, 12), key=lambda c: against_failures(c / 12)) == 6


@pytest.mark.parametrize("copies", [1, 3, 6])
def test_the_closed_form_is_what_the_advantages_give(copies: int):
    rewards = torch.tensor([[1.0] * copies + [0.0] * (12 - copies)], dtype=torch.float64)
    advantages = group_advantages(rewards, scale="group_population", epsilon=0.0)
    assert float(advantages[0, :copies].sum()) / 12 == pytest.approx(against_failures(copies / 12))


@pytest.mark.parametrize("mean", NORMAL)
def test_among_normal_rewards(mean: float):
    for copies, expected in zip((1, 2, 3, 4, 6, 8), NORMAL[mean], strict=True):
        assert against_normal(mean, 0.25, copies, 12) == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize("success", BINARY)
def test_among_binary_rewards(success: float):
    assert against_binary(success, 3, 12) == pytest.approx(BINARY[success], abs=1.5e-3)


def test_nothing_to_gain_where_all_are_right():
    assert against_binary(1.0, 3, 12) == (0.0, 0.0)
    poisoned, honest = against_binary(0.0, 3, 12)
    assert poisoned == pytest.approx(math.sqrt(3) / 4) and honest == 0.0
