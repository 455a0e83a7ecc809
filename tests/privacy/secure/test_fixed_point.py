import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanse.privacy.secure.fixed_point import Grid, modulus_for, quantise, total_of


def test_by_hand():
    grid = Grid(reach=1.0, bits=3)
    assert (grid.levels, grid.step) == (3, 1 / 3)
    words, cut = quantise(torch.tensor([0.0, 1 / 3, -1 / 3, 0.5, 2.0, -2.0]), 1.0, grid)
    assert words.tolist() == [0, 1, 2**32 - 1, 2, 3, 2**32 - 3]
    assert cut == 2
    assert total_of(words, grid).tolist() == pytest.approx([0, 1 / 3, -1 / 3, 2 / 3, 1, -1])


def test_what_is_not_finite_counts_as_nothing():
    words, cut = quantise(torch.tensor([math.nan, math.inf, -math.inf, 1.0]), 1.0, Grid(1.0, 8))
    assert words.tolist() == [0, 0, 0, 127]
    assert cut == 3


@given(
    st.lists(st.lists(st.floats(-3, 3, width=32), min_size=4, max_size=4), min_size=1, max_size=9),
    st.sampled_from([(8, 32), (24, 32), (28, 32), (40, 64)]),
)
def test_the_sum_is_within_its_stated_error(rows, form):
    bits, modulus = form
    grid, weight = Grid(3.0, bits, modulus), 1 / len(rows)
    total = np.zeros(4, grid.dtype)
    for row in rows:
        total += quantise(torch.tensor(row), weight, grid)[0]
    exact = torch.tensor(rows, dtype=torch.float64).mul(weight).sum(0)
    missed = (total_of(total, grid) - exact).abs().max()
    assert missed <= grid.error(len(rows)) * (1 + 1e-9)


def test_the_modulus_leaves_room_for_all_addends_at_once():
    assert modulus_for(24, 255) == 32
    assert modulus_for(24, 257) == 64
    assert modulus_for(24, 257, weight=0.5) == 32
    with pytest.raises(ValueError, match="overflow 64 bits"):
        modulus_for(60, 17)
    words, cut = quantise(torch.full((1,), 5.0), 1.0, Grid(5.0, 24))
    total = words * np.uint32(255)
    assert (total_of(total, Grid(5.0, 24)).item(), cut) == (pytest.approx(5.0 * 255), 0)
    assert total_of(words * np.uint32(300), Grid(5.0, 24)).item() < 0


@pytest.mark.parametrize("reach", [0.0, -1.0, math.nan, math.inf, 1e31])
def test_a_range_is_a_number(reach):
    with pytest.raises(ValueError, match="not positive and finite"):
        Grid(reach, 24)


def test_what_is_beyond_the_range_is_cut_before_it_is_weighted():
    words, cut = quantise(torch.tensor([9.0, 0.5]), 0.5, Grid(1.0, 8))
    assert (words.tolist(), cut) == ([64, 32], 1)


def test_blocks_do_not_show(monkeypatch):
    values, grid = torch.linspace(-1, 1, 101), Grid(1.0, 24)
    whole = quantise(values, 0.3, grid)[0]
    monkeypatch.setattr("hanse.privacy.secure.fixed_point.BLOCK", 7)
    assert np.array_equal(quantise(values, 0.3, grid)[0], whole)
