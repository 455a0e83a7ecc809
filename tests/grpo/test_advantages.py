import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanse.grpo.advantages import EPSILON, group_advantages, group_mean_std, informative

NAN = math.nan
GROUPS = st.integers(2, 8).flatmap(
    lambda G: st.lists(
        st.lists(st.one_of(st.floats(-10, 10, width=32), st.just(NAN)), min_size=G, max_size=G),
        min_size=1,
        max_size=4,
    )
)


def tensor(rows: list[list[float]]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def close(ours: torch.Tensor, expected: list[list[float]]) -> None:
    torch.testing.assert_close(ours, tensor(expected), rtol=1e-12, atol=1e-12)


def test_group_scale_divides_by_the_unbiased_std_plus_epsilon():
    std = math.sqrt(4 * 0.25 / 3)
    a = 0.5 / (std + EPSILON)
    close(group_advantages(tensor([[1, 0, 0, 1]])), [[a, -a, -a, a]])


def test_population_scale():
    a = 0.5 / (0.5 + EPSILON)
    close(group_advantages(tensor([[1, 0, 0, 1]]), scale="group_population"), [[a, -a, -a, a]])


def test_no_scale():
    close(group_advantages(tensor([[1, 0, 0, 0]]), scale="none"), [[0.75, -0.25, -0.25, -0.25]])


def test_batch_scale_spans_all_groups():
    std = math.sqrt(4 * (1.5**2) / 3 + 0)
    rewards = tensor([[0, 0], [3, 3.0]])
    close(group_advantages(rewards, scale="batch"), [[0, 0], [0, 0]])
    rewards = tensor([[0, 3], [0, 3]])
    a = 1.5 / (std + EPSILON)
    close(group_advantages(rewards, scale="batch"), [[-a, a], [-a, a]])


def test_leave_one_out_compares_with_the_mean_of_the_others():
    rewards = tensor([[1, 2, 6]])
    expected = [[1 - 4, 2 - 3.5, 6 - 1.5]]
    close(group_advantages(rewards, baseline="leave_one_out", scale="none"), expected)


def test_unscored_members_get_zero_and_count_nowhere():
    rewards = tensor([[1, NAN, 0, NAN], [NAN, NAN, NAN, 1], [NAN] * 4])
    a = 0.5 / (math.sqrt(0.5) + EPSILON)
    close(group_advantages(rewards), [[a, 0, -a, 0], [0] * 4, [0] * 4])
    close(
        group_advantages(rewards, baseline="leave_one_out", scale="none"), [[1, 0, -1, 0], [0] * 4, [0] * 4]
    )


@pytest.mark.parametrize("population", [False, True])
def test_mean_and_std_of_degenerate_groups(population: bool):
    mean, std = group_mean_std(tensor([[2, NAN], [NAN, NAN], [5, 5]]), population=population)
    close(mean, [2, 0, 5])
    close(std, [0, 0, 0])


def test_a_group_of_equal_rewards_gets_exactly_zero_whatever_the_rounding():
    rewards = tensor([[0.1 + 0.2] * 7])
    for scale in ("group", "group_population", "batch", "none"):
        assert group_advantages(rewards, scale=scale).tolist() == [[0.0] * 7]


def test_the_dtype_of_the_rewards_is_kept():
    assert group_advantages(torch.tensor([[0.0, 1.0]])).dtype == torch.float32


def test_a_single_member_is_refused():
    with pytest.raises(ValueError, match="at least two members"):
        group_advantages(tensor([[1.0]]))


@given(GROUPS)
def test_scored_advantages_sum_to_zero_and_unscored_ones_are_zero(rows: list[list[float]]):
    rewards = tensor(rows)
    for baseline in ("mean", "leave_one_out"):
        for scale in ("group", "group_population", "batch", "none"):
            advantages = group_advantages(rewards, baseline=baseline, scale=scale)
            assert advantages.isfinite().all()
            assert (advantages.sum(-1).abs() <= 1e-9 * (1 + advantages.abs().sum(-1))).all()
            assert (advantages[rewards.isnan()] == 0).all()


@given(GROUPS, st.integers(-50, 50))
def test_a_shift_of_all_rewards_changes_nothing(rows: list[list[float]], shift: int):
    rewards = tensor(rows)
    for scale in ("group", "group_population", "batch", "none"):
        moved = group_advantages(rewards + shift, scale=scale)
        still_flat = (moved == 0).all(-1)  # a shift may round tiny differences away
        same = (moved - group_advantages(rewards, scale=scale)).abs().amax(-1) < 1e-6
        assert (same | still_flat).all()


@given(GROUPS)
def test_leave_one_out_is_the_centred_reward_times_g_over_g_minus_one(rows: list[list[float]]):
    rewards = tensor(rows)
    n = (~rewards.isnan()).sum(-1, keepdim=True).double()
    centred = group_advantages(rewards, scale="none")
    ours = group_advantages(rewards, baseline="leave_one_out", scale="none")
    torch.testing.assert_close(ours, centred * n / (n - 1).clamp(min=1), rtol=1e-9, atol=1e-12)


@given(GROUPS)
def test_a_group_does_not_depend_on_its_neighbours(rows: list[list[float]]):
    rewards = tensor(rows)
    together = group_advantages(rewards)
    for i in range(len(rows)):
        assert torch.equal(group_advantages(rewards[i : i + 1])[0], together[i])


def test_a_group_is_informative_if_its_scored_rewards_differ():
    rewards = tensor([[1, 0], [1, 1], [1, NAN], [NAN, NAN], [0.1 + 0.2, 0.3]])
    assert informative(rewards).tolist() == [True, False, False, False, True]
