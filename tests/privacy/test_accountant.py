from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.privacy.accountant import affordable, calibrate, epsilon

pytest.importorskip("dp_accounting")
TABLE = [
    (7473, 64, 200, 1.006, 0.638, 0.525),
    (7473, 256, 200, 2.019, 0.914, 0.699),
    (7473, 512, 200, 3.724, 1.332, 0.916),
    (12000, 256, 200, 1.459, 0.782, 0.623),
    (12000, 256, 500, 2.010, 0.902, 0.688),
    (50000, 256, 200, 1.024, 0.608, 0.496),
]
"""Problems, batch, steps, and the noise that epsilon 1, 4 and 8 need at delta = n^-1.1."""


def _rdp_by_hand(noise: float, rate: float, steps: int, delta: float) -> float:
    """The sum over binomial terms, order by order (Mironov et al., 1908.10530), then the best order."""
    best = math.inf
    for order in range(2, 38):
        terms = [
            math.comb(order, k) * (1 - rate) ** (order - k) * rate**k * math.exp((k * k - k) / 2 / noise**2)
            for k in range(order + 1)
        ]
        divergence = steps * math.log(sum(terms)) / (order - 1)
        bound = divergence + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
        best = min(best, bound)
    return best


@pytest.mark.parametrize("noise, rate, steps", [(1.0, 0.01, 1000), (2.0, 0.1, 60), (4.0, 1.0, 5)])
def test_rdp_is_the_formula(noise, rate, steps):
    assert epsilon("rdp", noise, rate, steps, 1e-5) == pytest.approx(_rdp_by_hand(noise, rate, steps, 1e-5))


@pytest.mark.parametrize("row", TABLE)
def test_calibrated_noise_is_that_of_the_published_table(row):
    problems, batch, steps, *expected = row
    for budget, noise in zip((1.0, 4.0, 8.0), expected, strict=True):
        found = calibrate("rdp", budget, problems**-1.1, batch / problems, steps)
        assert found == pytest.approx(noise, rel=2e-3)


def test_the_gaussian_mechanism_alone_has_its_exact_epsilon():
    """Balle and Wang, 1805.06530: delta = Phi(1/2s - es) - e^e Phi(-1/2s - es)."""

    def phi(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    found = epsilon("prv", 1.5, 1.0, 1, 1e-5)
    delta = phi(1 / 3.0 - found * 1.5) - math.exp(found) * phi(-1 / 3.0 - found * 1.5)
    assert delta == pytest.approx(1e-5, rel=0.02)


@pytest.mark.parametrize("accountant", ["rdp", "prv"])
def test_calibrated_noise_costs_the_budget_and_hardly_less(accountant):
    noise = calibrate(accountant, 2.0, 1e-4, 0.1, 40)
    assert 1.98 < epsilon(accountant, noise, 0.1, 40, 1e-4) <= 2.0
    assert affordable(accountant, 2.0, 1e-4, 0.1, noise, 100) in (40, 41)


def test_prv_is_tighter():
    assert epsilon("prv", 1.0, 0.05, 200, 1e-5) < epsilon("rdp", 1.0, 0.05, 200, 1e-5)
    assert calibrate("prv", 4.0, 1e-5, 0.05, 200) < calibrate("rdp", 4.0, 1e-5, 0.05, 200)


@given(st.floats(0.6, 5), st.floats(0.01, 0.5), st.integers(1, 200), st.floats(0.6, 5), st.integers(1, 200))
@settings(max_examples=12, deadline=None)
def test_more_noise_costs_less_and_more_steps_or_a_higher_rate_cost_more(noise, rate, steps, more, further):
    cost = epsilon("rdp", noise, rate, steps, 1e-5)
    assert epsilon("rdp", noise + more, rate, steps, 1e-5) <= cost
    assert epsilon("rdp", noise, rate, steps + further, 1e-5) >= cost
    assert epsilon("rdp", noise, min(1.0, rate * 1.5), steps, 1e-5) >= cost


def test_nothing_costs_nothing_and_no_noise_costs_everything():
    assert epsilon("rdp", 1.0, 0.1, 0, 1e-5) == 0
    assert epsilon("prv", 0.0, 0.1, 1, 1e-5) == math.inf
    assert affordable("rdp", 1.0, 1e-5, 0.5, 0.1, 100) == 0


def test_a_budget_that_no_noise_meets_is_said():
    with pytest.raises(ValueError, match="no noise"):
        calibrate("rdp", 1e-9, 1e-5, 1.0, 1000)
