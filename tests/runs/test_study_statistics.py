"""Values worked by hand, or from tables of Student's t."""

from __future__ import annotations

import math

import pytest

from hanse.randomness import generator
from hanse.runs.study.statistics import (
    compare,
    holm,
    lower_bound,
    paired,
    rounds_to,
    summarise,
    t_test,
    trial_score,
    two_way_bootstrap,
)
from hanse.runs.study.student_t import central, quantile, two_sided_p


@pytest.mark.parametrize(
    ("probability", "df", "expected"),
    [
        (0.975, 1, 12.706205),
        (0.975, 2, 4.302653),
        (0.975, 4, 2.776445),
        (0.95, 2, 2.919986),
        (0.95, 9, 1.833113),
        (0.975, 30, 2.042272),
        (0.5, 3, 0.0),
    ],
)
def test_quantiles_are_those_of_the_tables(probability, df, expected):
    assert quantile(probability, df) == pytest.approx(expected, abs=1e-6)


def test_p_values_in_closed_form():
    assert two_sided_p(1, 1) == pytest.approx(0.5)
    assert two_sided_p(-1, 2) == pytest.approx(1 - 1 / math.sqrt(3))
    assert two_sided_p(2, 5) == pytest.approx(0.1019395, abs=1e-6)
    assert two_sided_p(0, 7) == 1


@pytest.mark.parametrize("call", [lambda: central(1, 0), lambda: quantile(1, 3), lambda: quantile(0.4, 3)])
def test_what_has_no_answer_is_refused(call):
    with pytest.raises(ValueError, match=r"degree|probability"):
        call()


def test_summary_of_five_values():
    found = summarise([1, 2, 3, 4, 5])
    assert (found.n, found.mean) == (5, 3)
    assert found.sd == pytest.approx(math.sqrt(2.5))
    assert found.interval == pytest.approx((3 - 1.963243, 3 + 1.963243), abs=1e-6)


def test_few_values_have_no_spread():
    assert summarise([]).to_json() == {"n": 0, "mean": None, "sd": None, "interval": None}
    assert summarise([0.4]).to_json() == {"n": 1, "mean": 0.4, "sd": None, "interval": None}
    assert lower_bound([0.4]) is None
    assert t_test([0.4]) is None


def test_pairs_are_those_that_both_have():
    first = {(1, None): 0.5, (2, None): 0.7, (3, None): 0.9}
    second = {(2, None): 0.4, (1, None): 0.25, (9, None): 0.0}
    assert paired(first, second) == pytest.approx({(1, None): 0.25, (2, None): 0.3})


def test_comparison_over_seeds_alone_is_a_paired_t_test():
    found = compare({(1, None): 1.0, (2, None): 2.0, (3, None): 3.0}, generator("test"))
    half = 4.302653 / math.sqrt(3)
    assert found["interval"] == pytest.approx([2 - half, 2 + half], abs=1e-6)
    assert found["lower_bound"] == pytest.approx(2 - 2.919986 / math.sqrt(3), abs=1e-6)
    assert found["p"] == pytest.approx(two_sided_p(2 * math.sqrt(3), 2))
    assert found["bootstrap"] is None


def test_equal_differences():
    assert t_test([0.0, 0.0]) == 1
    assert t_test([0.1, 0.1]) == 0
    assert compare({}, generator("test"))["n"] == 0


def test_bootstrap_sees_that_pairs_of_one_start_go_together():
    """The difference is the start's alone: 0 or 1. Two starts drawn anew give 0, 1/2, 1 as 1 : 2 : 1."""
    table = {(seed, start): float(start) for seed in range(5) for start in (0, 1)}
    found = two_way_bootstrap(table, generator("test"))
    assert found is not None
    assert found["interval"] == [0, 1]
    assert found["p"] == pytest.approx(0.5, abs=0.05)
    both = compare(table, generator("test"))
    assert both["interval"][0] > 0.1, "a t-interval takes the ten pairs for independent"
    assert both["lower_bound"] == 0
    assert both["p"] == found["p"]


def test_bootstrap_is_the_same_each_time_and_bears_a_missing_pair():
    table = {(seed, start): seed + 0.1 * start for seed in range(4) for start in range(3)}
    del table[2, 1]
    assert two_way_bootstrap(table, generator("x")) == two_way_bootstrap(table, generator("x"))
    assert two_way_bootstrap({(1, None): 0.1, (2, None): 0.2}, generator("x")) is None
    assert two_way_bootstrap({(1, 0): 0.1, (1, 1): 0.2}, generator("x")) is None


def test_holm():
    assert holm([0.01, 0.04, 0.03, None, 0.005]) == pytest.approx([0.03, 0.06, 0.06, None, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


def test_rounds_and_scores_of_a_curve():
    curve = [(0, 0.9), (2, 0.3), (4, 0.5), (6, 0.4), (8, 0.6)]
    assert rounds_to(curve, 0.5) == 0
    assert rounds_to(curve[1:], 0.5) == 4
    assert rounds_to(curve, 0.95) is None
    assert trial_score(curve) == pytest.approx(0.5)
    assert trial_score(curve[:2]) == pytest.approx(0.3), "what was before training does not count"
    assert trial_score(curve[:1]) is None
