from __future__ import annotations

import math

import pytest

from hanse.privacy.audit import Rule, bound_at, lower_bound, upper_rate


@pytest.mark.parametrize(
    ("hits", "trials", "expected"), [(0, 10, 0.3085), (5, 10, 0.8129), (10, 10, 1.0), (0, 500, 0.00735)]
)
def test_clopper_pearson_by_table(hits, trials, expected):
    assert upper_rate(hits, trials, 0.025) == pytest.approx(expected, abs=1e-4)


def test_nothing_seen_has_a_closed_form():
    assert upper_rate(0, 40, 0.05) == pytest.approx(1 - 0.05 ** (1 / 40))


def test_a_perfect_attack_proves_what_its_trials_allow():
    inside, outside = [1.0] * 500, [0.0] * 500
    rate = 1 - 0.025 ** (1 / 500)
    assert bound_at(Rule(0.5), inside, outside, 0.0) == pytest.approx(math.log((1 - rate) / rate))
    assert bound_at(Rule(0.5), inside, outside, 0.01) < bound_at(Rule(0.5), inside, outside, 0.0)
    assert lower_bound(inside, outside, 0.0) == pytest.approx(
        math.log((0.025 ** (1 / 250)) / (1 - 0.025 ** (1 / 250)))
    )


def test_rules_by_hand():
    """Of ten and ten: eight caught at two false alarms, and the same numbers read in the other three ways."""
    inside, outside = [1.0] * 8 + [0.0] * 2, [1.0] * 2 + [0.0] * 8
    caught, alarms = 1 - upper_rate(2, 10, 0.025), upper_rate(2, 10, 0.025)
    for rule in (Rule(0.5), Rule(0.5, -1, swapped=True)):
        assert bound_at(rule, inside, outside, 0.0) == max(0.0, math.log(caught / alarms))
    for rule in (Rule(0.5, -1), Rule(0.5, swapped=True)):
        assert bound_at(rule, inside, outside, 0.0) == 0.0


def test_the_rule_is_chosen_before_what_it_is_counted_on_is_seen():
    """The second half reads the other way round: whoever chose by it would find a large loss."""
    inside, outside = [1.0] * 50 + [0.0] * 50, [0.0] * 50 + [1.0] * 50
    assert lower_bound(inside, outside, 0.0) == 0.0


def test_a_blind_attack_proves_nothing():
    same = [float(i % 17) for i in range(400)]
    assert lower_bound(same, same, 0.0) == 0.0


def test_randomised_response_is_bounded_by_its_epsilon():
    """Truth with probability 3/4 is ln 3: exact rates come near it and stay below."""
    inside, outside = [1.0, 1.0, 1.0, 0.0] * 500, [0.0, 0.0, 0.0, 1.0] * 500
    assert 0.8 * math.log(3) < lower_bound(inside, outside, 0.0) < math.log(3)


@pytest.mark.slow
def test_a_canary_is_found_without_noise_and_with_too_little_and_not_beyond_epsilon():
    pytest.importorskip("dp_accounting")
    from benchmarks.privacy_audit import DELTA, RATE, STEPS, Attack

    from hanse.privacy.accountant import calibrate

    assert Attack(0.0, seeded=True).bound(60) > 1.2
    noise = calibrate("prv", 1.0, DELTA, RATE, STEPS)
    assert Attack(noise, seeded=True).bound(40) <= 1.0
    assert Attack(noise, seeded=True, share=0.02).bound(60) > 1.2
