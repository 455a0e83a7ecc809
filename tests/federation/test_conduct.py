"""Who has to stay away, for how long, and which lengths are compared."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.federation.conduct import Conduct, drawn, present
from hanse.recipe.federation import ScreeningSpec

SPEC = ScreeningSpec(quarantine_after=2, quarantine_rounds=3, norm_rounds=3)


def played(*rounds: tuple[dict[int, float], set[int]], spec: ScreeningSpec = SPEC) -> Conduct:
    """After rounds 1, 2, … of (accepted norms, refused clients)."""
    conduct = Conduct()
    for number, (accepted, refused) in enumerate(rounds, 1):
        conduct = conduct.after(number, spec, {k: {"update": n} for k, n in accepted.items()}, refused)
    return conduct


def test_two_refusals_are_three_rounds_away():
    conduct = played(({0: 1.0}, {1}), ({0: 1.0}, {1}))
    assert [conduct.away(number) for number in (3, 4, 5, 6)] == [{1: 3}, {1: 2}, {1: 1}, {}]
    assert conduct.strikes == {}


def test_an_accepted_upload_makes_up_for_a_refused_one():
    assert played(({}, {1}), ({1: 1.0}, set()), ({}, {1})).away(4) == {}
    assert played(({1: 1.0}, set()), ({}, {1})).strikes == {1: 1}


def test_never_where_the_recipe_says_so():
    spec = ScreeningSpec(quarantine_after=None)
    assert played(*[({}, {1})] * 9, spec=spec).away(10) == {}


def test_the_median_is_over_the_last_rounds_and_this_one_and_skips_zeros():
    conduct = played(({0: 9.0}, set()), ({0: 1.0, 1: 0.0}, set()), ({0: 2.0, 1: 4.0}, set()))
    assert conduct.medians([{"update": 100.0}]) == {"update": 3.0}  # 1, 2, 4, 100: round 1 is forgotten
    assert Conduct().medians([{"update": 1.0}, {"update": 2.0}, {"update": 0.0}]) == {}


def test_a_round_full_of_liars_does_not_move_the_median():
    honest = played(*[(dict.fromkeys(range(5), 1.0), set())] * 2)
    assert honest.medians([{"update": 50.0}] * 4) == {"update": 1.0}
    assert Conduct().medians([{"update": 50.0}] * 4) == {"update": 50.0}


def test_one_round_only_where_asked_for():
    spec = ScreeningSpec(norm_rounds=1)
    assert played(({0: 1.0, 1: 1.0, 2: 1.0}, set()), spec=spec).lengths == ()


@given(
    st.lists(
        st.tuples(st.dictionaries(st.integers(0, 3), st.floats(0, 1e6)), st.sets(st.integers(0, 3))),
        max_size=6,
    )
)
def test_it_survives_a_checkpoint(rounds):
    conduct = played(*rounds)
    assert Conduct.from_fields(json.loads(json.dumps(conduct.to_fields()))) == conduct


@pytest.mark.parametrize(
    ("away", "needed", "free", "back"),
    [
        ({}, 4, [0, 1, 2, 3], []),
        ({1: 2, 2: 1}, 2, [0, 3], []),
        ({1: 2, 2: 1}, 3, [0, 2, 3], [2]),
        ({1: 1, 2: 1}, 3, [0, 1, 3], [1]),
        ({0: 3, 1: 2, 2: 1, 3: 1}, 9, [0, 1, 2, 3], [0, 1, 2, 3]),
    ],
)
def test_those_whose_time_is_nearly_up_come_back_to_make_up_a_quorum(away, needed, free, back):
    assert present([0, 1, 2, 3], away, needed) == (free, back)


@given(st.sets(st.integers(0, 7), max_size=7), st.integers(1, 8), st.integers(0, 9))
def test_a_draw_leaves_out_those_away_and_is_else_what_it_was(away, count, seed):
    clients = list(range(8))
    plain, _ = drawn(clients, {}, 1, count, np.random.default_rng(seed))
    chosen, staying = drawn(clients, dict.fromkeys(away, 1), 1, count, np.random.default_rng(seed))
    assert staying == dict.fromkeys(sorted(away), 1)
    assert len(chosen) == min(count, 8 - len(away))
    assert set(plain) - away <= set(chosen) <= set(clients) - away
