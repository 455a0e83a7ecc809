from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.privacy.clipping import clip_factors, clipped_sum, group_norms
from hanse.privacy.signals import noised_sums, signal_sums

NUMBERS = st.floats(-(2.0**99), 2.0**99, width=32)


def test_factors_by_hand():
    factors = clip_factors(torch.tensor([0.0, 2.0, 4.0, math.inf, math.nan], dtype=torch.float64), 2.0)
    assert factors[:2].tolist() == [1.0, 1.0]
    assert float(factors[2]) == pytest.approx(0.5, rel=3e-4) and float(factors[2]) < 0.5
    assert factors[3:].tolist() == [0.0, 0.0]


def test_a_norm_that_rounding_shortens_is_clipped_all_the_same():
    """Small squares are lost beside a large one: the measured norm is the clip, the true one is longer."""
    row = torch.full((1, 1 << 14), 2.0**-13)
    row[0, 0] = 1.0
    clip = float(torch.linalg.vector_norm(row, dim=1))
    true = float(row.double().norm())
    assert true > clip * (1 + 1e-6)
    assert float(clipped_sum([row], clip).double().norm()) <= clip


def test_norms_span_all_parts_and_do_not_overflow():
    parts = [torch.tensor([[3.0, 0.0], [3e30, 0.0]]), torch.tensor([[4.0], [4e30]])]
    assert group_norms(parts).tolist() == pytest.approx([5.0, 5e30], rel=2**-12)


@pytest.mark.parametrize("n", [1000, 40_000, 1_100_000])
def test_norms_of_long_vectors_are_right_within_the_slack(n):
    rows = torch.randn(2, n, generator=torch.Generator().manual_seed(n)).square()
    rows[:, 0] *= 1e4
    true = rows.double().norm(dim=1)
    assert torch.allclose(group_norms([rows]), true, rtol=2**-12)
    assert bool((group_norms([rows]) >= true).all())


def test_a_sum_by_hand():
    parts = [torch.tensor([[3.0, 0.0], [0.1, 0.2]]), torch.tensor([[4.0], [0.3]])]
    assert clipped_sum(parts, 1.0).tolist() == pytest.approx([0.7, 0.2, 1.1], rel=3e-4)


def test_up_to_the_clip_nothing_changes_a_bit():
    rows = torch.randn(1, 50, generator=torch.Generator().manual_seed(0))
    assert torch.equal(clipped_sum([rows], 1e9), rows[0])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_counts_as_zero(bad):
    rows = torch.tensor([[0.1, bad], [0.2, 0.3]])
    assert clipped_sum([rows], 1.0).tolist() == pytest.approx([0.2, 0.3])
    assert clipped_sum([rows[:1]], 1.0).tolist() == [0.0, 0.0]


@given(st.lists(NUMBERS, min_size=6, max_size=6), st.floats(1e-6, 1e6))
@settings(max_examples=200, deadline=None)
def test_one_record_moves_the_sum_by_the_clip_at_most(values, clip):
    """The sum with a record less the sum without it, in exact arithmetic, is the record's own share."""
    record = torch.tensor([values])
    share = clipped_sum([record[:, :2], record[:, 2:]], clip)
    assert float(share.double().norm()) <= clip


@given(
    st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), min_size=1, max_size=8),
)
@settings(max_examples=200, deadline=None)
def test_one_group_moves_the_signal_by_one_at_most(rewards):
    assert float(signal_sums([torch.tensor(rewards, dtype=torch.float64)]).norm()) <= 1 + 1e-12


def test_signal_sums_by_hand():
    groups = [torch.tensor([1.0, 0.0, 1.0, 1.0]), torch.tensor([5.0, -5.0]), torch.tensor([math.nan] * 2)]
    assert signal_sums(groups).tolist() == pytest.approx([0.75 + 0.5, math.sqrt(3) / 4 + 0.5])
    assert signal_sums([]).tolist() == [0.0, 0.0]


def test_noise_of_signals_grows_as_their_share_shrinks():
    sums, one = torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    assert noised_sums(sums, 2.0, 0.75, one).tolist() == pytest.approx([2 * 1.25 / 0.75] * 2)
