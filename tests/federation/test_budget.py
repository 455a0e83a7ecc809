"""Water-filling: exact sums, caps, proportions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.federation.budget import share_entries


@pytest.mark.parametrize(
    ("changed", "shares", "fraction", "granted"),
    [
        ([100, 100], [1.0, 3.0], 0.5, [25, 75]),
        ([100, 100], [1.0, 9.0], 0.75, [50, 100]),
        ([10, 100, 100], [8.0, 1.0, 3.0], 0.5, [10, 24, 71]),
        ([100, 100], [0.0, 0.0], 0.5, [50, 50]),
        ([10, 90], [0.0, 0.0], 0.5, [10, 40]),
        ([100, 100], [1.0, 0.0], 0.3, [60, 0]),
        ([100, 100], [1.0, 0.0], 0.75, [100, 50]),
        ([3, 3, 3], [1.0, 1.0, 1.0], 0.5, [2, 1, 1]),
        ([0, 10], [5.0, 1.0], 0.5, [0, 5]),
        ([0, 0], [1.0, 1.0], 0.5, [0, 0]),
        ([7], [0.0], 0.5, [4]),
        ([], [], 0.5, []),
        ([10, 10], [5e-324, 5e-324], 0.5, [5, 5]),
    ],
)
def test_by_hand(changed, shares, fraction, granted):
    assert share_entries(changed, shares, fraction) == granted


clients = st.lists(
    st.tuples(st.integers(0, 10**6), st.one_of(st.just(0.0), st.floats(0, 1e12))), min_size=1, max_size=8
)


@given(clients, st.floats(1e-6, 1))
def test_the_budget_is_met_exactly_within_capacities(pairs, fraction):
    changed, shares = [n for n, _ in pairs], [s for _, s in pairs]
    granted = share_entries(changed, shares, fraction)
    assert sum(granted) == round(fraction * sum(changed))
    assert all(0 <= g <= n for g, n in zip(granted, changed, strict=True))
    assert share_entries(changed, shares, fraction) == granted


@given(clients)
def test_a_whole_budget_is_every_count(pairs):
    changed = [n for n, _ in pairs]
    assert share_entries(changed, [s for _, s in pairs], 1.0) == changed


@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.floats(0.01, 100)), min_size=2, max_size=8),
    st.floats(0.01, 0.99),
)
def test_clients_below_their_capacity_get_entries_in_proportion(pairs, fraction):
    changed, shares = [n for n, _ in pairs], [s for _, s in pairs]
    granted = share_entries(changed, shares, fraction)
    levels = [g / s for g, n, s in zip(granted, changed, shares, strict=True) if g < n]
    slack = 2 / min(shares)
    assert not levels or max(levels) - min(levels) <= slack
    for g, n, s in zip(granted, changed, shares, strict=True):
        if g == n and levels:
            assert g / s <= max(levels) + slack
