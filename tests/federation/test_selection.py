"""Which entries are sent: cases where the rules disagree, counts, ties."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanse.federation.selection import CHUNK, SELECTIONS, Change, select

ALL = sorted(SELECTIONS)


def change_of(base: list[float], moves: list[float], dtype: str = "bfloat16") -> Change:
    start = torch.tensor(base).to(getattr(torch, dtype))
    return Change.of(start.float() + torch.tensor(moves), start, dtype)


def chosen(change: Change, count: int | None, rule: str, sizes=None) -> list[int]:
    return select(change, count, rule, sizes or [change.target.numel()]).tolist()


ULP_AT_ONE = 2.0**-7
"""A bfloat16 step at 1.0; at 0.25 it is a quarter of it, at 8 eight times as large."""


def test_float32_and_cast_and_ulp_choose_differently():
    """Entry 0, a large weight, moves by just over half a step: cast, it looks largest. Entry 1 moves most in
    float32. Entry 2, a small weight, moves most steps."""
    change = change_of([8.0, 1.0, 0.015625], [0.035, 0.04, 0.004])
    cast = (change.cast.float() - change.base.float()).tolist()
    assert cast == [0.0625, 0.0390625, 0.00402832031250]
    assert chosen(change, 1, "cast") == [0]
    assert chosen(change, 1, "float32") == [1]
    assert chosen(change, 1, "ulp") == [2]


def test_equal_steps_go_by_the_float32_change():
    change = change_of([1.0, 1.0, 1.0], [0.006, 0.009, 0.007])
    assert (change.cast.float() - 1).tolist() == [ULP_AT_ONE] * 3
    assert chosen(change, 1, "ulp") == [1]
    assert chosen(change, 2, "ulp") == [1, 2]
    assert chosen(change, 1, "cast") == [0]


def test_steps_down_count_like_steps_up():
    change = change_of([1.0, 1.0, -1.0, -1.0], [ULP_AT_ONE, -3 * ULP_AT_ONE, -2 * ULP_AT_ONE, 0.0])
    assert chosen(change, 1, "ulp") == [1]
    assert chosen(change, 2, "ulp") == [1, 2]


def test_whole_tensors_go_by_energy_per_changed_entry():
    """Energies 4.04 over two entries, 1.44 over one, and 0.01 over one: then the largest inside the last."""
    change = change_of([0.0] * 6, [2.0, 0.2, 0.0, 1.2, 0.1, 0.0], "float32")
    sizes = [3, 1, 2]
    assert chosen(change, 1, "module", sizes) == [0]
    assert chosen(change, 2, "module", sizes) == [0, 1]
    assert chosen(change, 3, "module", sizes) == [0, 1, 3]
    assert chosen(change, 2, "float32", sizes) == [0, 3]
    assert chosen(change, 3, "module", [3, 0, 1, 2, 0]) == [0, 1, 3]


def test_every_chunk_sends_the_same_number():
    moves = torch.zeros(3 * CHUNK)
    moves[:4] = torch.tensor([9.0, 8.0, 7.0, 6.0])
    moves[CHUNK + 5], moves[CHUNK + 9] = 0.1, 0.3
    moves[-1] = 0.2
    change = Change.of(moves, torch.zeros(3 * CHUNK), "float32")
    assert chosen(change, 3, "chunk") == [0, CHUNK + 9, 3 * CHUNK - 1]
    assert chosen(change, 3, "float32") == [0, 1, 2]
    assert chosen(change, 5, "chunk") == [0, 1, CHUNK + 5, CHUNK + 9, 3 * CHUNK - 1]
    assert chosen(change, 4, "chunk") == [0, 1, CHUNK + 9, 3 * CHUNK - 1]


@pytest.mark.parametrize("rule", ALL)
def test_ties_go_by_position(rule):
    change = change_of([1.0] * 6, [0.5, 0.0, 0.5, 0.5, 0.5, 0.5])
    assert chosen(change, 2, rule) == [0, 2]
    assert chosen(change, 4, rule) == [0, 2, 3, 4]


@pytest.mark.parametrize("rule", ALL)
def test_none_all_and_more_than_all(rule):
    change = change_of([1.0] * 4, [0.5, 0.0, -0.5, 1e-9])
    assert chosen(change, 0, rule) == []
    for count in (None, 2, 3, 100):
        assert chosen(change, count, rule) == [0, 2]
    still = change_of([1.0] * 4, [0.0] * 4)
    assert chosen(still, 3, rule) == []


@pytest.mark.parametrize("rule", ALL)
@given(
    moves=st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=40),
    count=st.integers(0, 40),
    cut=st.integers(0, 40),
    dtype=st.sampled_from(["float32", "bfloat16"]),
)
def test_counts_are_met_with_changed_entries_in_order(rule, moves, count, cut, dtype):
    base = torch.linspace(-2, 2, len(moves)).tolist()
    change = change_of(base, moves, dtype)
    sizes = [min(cut, len(moves)), len(moves) - min(cut, len(moves))]
    positions = select(change, count, rule, sizes)
    moving = change.changed.nonzero().squeeze(1)
    assert len(positions) == min(count, len(moving))
    assert positions.dtype == torch.int64
    assert positions.tolist() == sorted(set(positions.tolist()))
    assert set(positions.tolist()) <= set(moving.tolist())


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=40), st.integers(0, 40))
def test_no_selection_of_as_many_has_more_energy_than_float32s(moves, count):
    change = change_of([0.5] * len(moves), moves)
    energies = {
        rule: float(change.moved[select(change, count, rule, [len(moves)])].square().sum()) for rule in ALL
    }
    assert energies["float32"] == pytest.approx(max(energies.values()))
