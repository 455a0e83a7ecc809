"""Aggregation rules by hand, the order of uploads, and what one client's values become."""

from __future__ import annotations

import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanse.federation.aggregation import AGGREGATORS, Contribution, scales
from hanse.federation.signal import Signal
from hanse.federation.weighting import Standing
from hanse.recipe.federation import FederationSpec

FULL = ("mean", "norm-equalised", "masked", "sign-consensus")
BASE = torch.tensor([1.0, 1.0, 1.0, 1.0])


def combined(rule: str, *moves: list[float], weights: list[float], factors: list[float] | None = None):
    factors = factors or [1.0] * len(moves)
    parts = [
        Contribution(w, BASE + torch.tensor(m), c) for w, m, c in zip(weights, moves, factors, strict=True)
    ]
    return (AGGREGATORS[rule](BASE, iter(parts)) - BASE.double()).tolist()


def standing(client: int, norm: float, updates: int = 1) -> Standing:
    return Standing(client, Signal(0.5, 0.25, 4, 3, 10, updates=updates), norm)


FIRST, SECOND = [0.5, -0.5, 0.0, 0.25], [-0.25, -0.5, 1.0, 0.0]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("mean", [0.3125, -0.5, 0.25, 0.1875]),
        ("masked", [0.3125, -0.5, 1.0, 0.25]),
        ("sign-consensus", [0.5, -0.5, 1.0, 0.25]),
    ],
)
def test_by_hand(rule, expected):
    assert combined(rule, FIRST, SECOND, weights=[0.75, 0.25]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("mean", [0.75 - 0.125, -0.75 - 0.25, 0.5, 0.375]),
        ("masked", [0.625, -1.0, 2.0, 0.5]),
        ("sign-consensus", [1.0, -1.0, 2.0, 0.5]),
    ],
)
def test_factors_multiply_updates(rule, expected):
    moves = combined(rule, FIRST, SECOND, weights=[0.75, 0.25], factors=[2.0, 2.0])
    assert moves == pytest.approx(expected)


def test_opposite_wishes_of_equal_weight_cancel():
    assert combined("sign-consensus", [1.0] * 4, [-1.0] * 4, weights=[0.5, 0.5]) == [0.0] * 4


def test_equal_norms_by_hand():
    """Norms 4 and 1 with weights 1/4 and 3/4: the mean length is 1.75."""
    spec = FederationSpec(aggregation="norm-equalised")
    factors = scales(spec, [0.25, 0.75], [standing(0, 4.0), standing(1, 1.0)])
    assert factors == [1.75 / 4, 1.75]
    assert scales(spec, [0.5, 0.5], [standing(0, 0.0), standing(1, 2.0)]) == [1.0, 0.5]


def test_fednova_by_hand():
    """10 and 2 updates: tau = 0.25 * 10 + 0.75 * 2 = 4."""
    spec = FederationSpec(local="fednova")
    assert scales(spec, [0.25, 0.75], [standing(0, 1.0, 10), standing(1, 1.0, 2)]) == [0.4, 2.0]
    assert scales(spec, [0.5, 0.5], [standing(0, 1.0, 0), standing(1, 1.0, 4)]) == [1.0, 0.5]
    assert scales(FederationSpec(), [1.0], [standing(0, 9.0, 5)]) == [1.0]


@pytest.mark.parametrize("rule", FULL)
def test_one_client_comes_through(rule):
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    base = torch.randn(1000, generator=torch.Generator().manual_seed(1))
    result = AGGREGATORS[rule](base, [Contribution(1.0, values)])
    assert torch.equal(result.float(), values)


@pytest.mark.parametrize("rule", FULL)
@given(st.lists(st.lists(st.floats(-1, 1, width=16), min_size=4, max_size=4), min_size=1, max_size=5))
def test_no_entry_leaves_the_range_of_the_clients(rule, moves):
    result = combined(rule, *moves, weights=[1 / len(moves)] * len(moves))
    for entry, wishes in zip(result, zip(*moves, strict=True), strict=True):
        assert min(0.0, *wishes) - 1e-6 <= entry <= max(0.0, *wishes) + 1e-6


@pytest.mark.parametrize("rule", FULL)
def test_f2_contributions_are_read_once_and_one_at_a_time(rule):
    """When the rule asks for a client's tensor, it holds at most that of the client before."""
    alive: list[weakref.ref] = []

    def arriving():
        for k in range(6):
            assert [ref() for ref in alive[:-1] if ref() is not None] == []
            values = torch.full((4,), float(k))
            alive.append(weakref.ref(values))
            one = Contribution(1 / 6, values, 1.5)
            del values
            yield one
            del one

    assert AGGREGATORS[rule](BASE, arriving()).shape == (4,)
    assert len(alive) == 6


def test_entries_left_alone_stay_exact_however_large_the_scale():
    """An update as short as can be gets the others' length; what it did not change must not be rounded."""
    moves = combined(
        "norm-equalised", [0.0, 0.0, 0.0, 2.0**-23], FIRST, weights=[0.5, 0.5], factors=[1e30, 1.0]
    )
    assert moves[:3] == [0.25, -0.25, 0.0]
