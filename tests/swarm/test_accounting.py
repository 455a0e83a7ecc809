"""Zero, mask and drop on groups worked by hand."""

from __future__ import annotations

import pytest
import torch

from hanse.grpo.advantages import group_advantages
from hanse.swarm.accounting import Standing, account

A, Z, M, D = Standing
NAN = float("nan")


def booked(rewards, standing, **options):
    return account(
        torch.tensor(rewards, dtype=torch.float64), torch.tensor(standing), **({"scale": "none"} | options)
    )


def advantages(rewards, standing, **options) -> list[list[float]]:
    return booked(rewards, standing, **options).advantages_PG.tolist()


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (A, [0.5, 0.5, -0.5, -0.5]),
        (Z, [-0.25, 0.75, -0.25, -0.25]),  # mean 1/4, pushed down itself
        (M, [0.0, 0.75 * 3 / 4, -0.25 * 3 / 4, -0.25 * 3 / 4]),  # the same mean, three of four active
        (D, [0.0, 2 / 3, -1 / 3, -1 / 3]),  # mean 1/3
    ],
)
def test_one_rejected_right_answer(first, expected):
    assert advantages([[1.0, 1.0, 0.0, 0.0]], [[first, A, A, A]])[0] == pytest.approx(expected)


def test_nothing_rejected_is_the_plain_advantage():
    rewards = torch.rand(5, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for scale in ("group", "group_population", "batch", "none"):
        found = account(rewards, torch.zeros(5, 6, dtype=torch.int64), scale=scale)
        assert torch.equal(found.advantages_PG, group_advantages(rewards, scale=scale))
        assert found.active_PG.all() and found.counted_PG.all()


def test_a_masked_one_counts_as_a_failure():
    """Kept at 1 it would lower everybody: mean 3/4 in place of 1/2."""
    found = advantages([[1.0, 1.0, 1.0, 0.0]], [[M, A, A, A]])[0]
    assert found == pytest.approx([0.0, 0.5 * 0.75, 0.5 * 0.75, -0.5 * 0.75])


def test_the_deviation_is_that_of_what_counts():
    """Population deviations: of (0, 1, 0, 0) sqrt(3)/4; of (1, 0, 0) sqrt(2)/3."""
    options = {"scale": "group_population"}
    zero = advantages([[1.0, 1.0, 0.0, 0.0]], [[Z, A, A, A]], **options)[0]
    assert zero[1] == pytest.approx(0.75 / (3**0.5 / 4), rel=1e-3)
    drop = advantages([[1.0, 1.0, 0.0, 0.0]], [[D, A, A, A]], **options)[0]
    assert drop[1] == pytest.approx((2 / 3) / (2**0.5 / 3), rel=1e-3)


def test_fewer_than_two_accepted_is_no_group():
    found = booked([[1.0, 0.0, 1.0], [1.0, 0.0, 1.0]], [[A, Z, M], [A, A, D]])
    assert found.advantages_PG[0].tolist() == [0, 0, 0]
    assert not found.counted_PG[0].any() and not found.active_PG[0].any()
    assert found.advantages_PG[1].tolist() == [0.5, -0.5, 0]


def test_unscored_ones_count_nowhere_and_not_as_accepted():
    found = booked([[1.0, 0.0, NAN], [1.0, NAN, 1.0]], [[A, A, A], [A, A, D]])
    assert found.advantages_PG.tolist() == [[0.5, -0.5, 0.0], [0.0, 0.0, 0.0]]
    assert found.counted_PG.tolist() == [[True, True, False], [False, False, False]]


def test_a_rejected_one_needs_no_score():
    """It counts as 0, whatever was or was not said of it."""
    assert advantages([[NAN, 1.0, 0.0]], [[M, A, A]]) == advantages([[1.0, 1.0, 0.0]], [[M, A, A]])


def test_masked_ones_stay_in_the_denominator_of_the_batch():
    """Six count and five are active: all advantages times 5/6, also those of the other group."""
    found = booked([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]], [[M, A, A], [A, A, A]])
    assert found.advantages_PG[0].tolist() == pytest.approx([0, 2 / 3 * 5 / 6, -1 / 3 * 5 / 6])
    assert found.advantages_PG[1].tolist() == pytest.approx([2 / 3 * 5 / 6, -1 / 3 * 5 / 6, -1 / 3 * 5 / 6])


def test_why_zero_is_a_weapon():
    """One right text of the attacker's in a group that fails: dropped, it moves nothing; at zero, in a
    group that is right once, it is pushed down as hard as honest failures are."""
    assert advantages([[1.0, 0.0, 0.0, 0.0]], [[D, A, A, A]])[0] == [0, 0, 0, 0]
    assert advantages([[1.0, 1.0, 0.0, 0.0]], [[Z, A, A, A]])[0][0] == -0.25


def test_all_dropped():
    found = booked([[1.0, 0.0]], [[D, D]])
    assert found.advantages_PG.tolist() == [[0.0, 0.0]] and not found.counted_PG.any()


def test_a_constant_denominator_stays():
    """Dr. GRPO divides by all slots, masked ones among them: nothing is to be made good."""
    rewards, standing = [[1.0, 1.0, 0.0, 0.0]], [[M, A, A, A]]
    assert advantages(rewards, standing, constant=True)[0] == pytest.approx([0, 0.75, -0.25, -0.25])
