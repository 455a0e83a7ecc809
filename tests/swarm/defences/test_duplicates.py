from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from hanse.recipe.swarm import DuplicatesDefence
from hanse.swarm.defences import DEFENCES
from swarm.made import END, sent, verdicts, view

duplicates = DEFENCES["duplicates"]
A, B = (5, 6, 7, 8, 9, END), (9, 8, 7, 6, 5, END)
LONG = tuple(range(4, 64))


def test_only_the_first_of_copies_passes():
    """Three of four, each token with p = 0.1: C(4, 3) * (1e-6)^2."""
    made = [sent(0, 2, A), sent(0, 0, A), sent(0, 1, B), sent(0, 3, A)]
    seen = view(made, logp=math.log(0.1))
    assert verdicts(duplicates, DuplicatesDefence(), seen) == [True, False, False, True]
    assert verdicts(duplicates, DuplicatesDefence(most=2), seen) == [False, False, False, True]
    assert verdicts(duplicates, DuplicatesDefence(most=3), seen) == [False] * 4


def test_nodes_and_groups_are_apart():
    made = [sent(0, 0, A), sent(1, 0, A), sent(0, 1, A, problem="q"), sent(2, 0, B)]
    assert verdicts(duplicates, DuplicatesDefence(), view(made, logp=-9.0)) == [False] * 4


def test_what_is_not_accepted_any_more_is_no_original():
    made = [sent(0, 0, A), sent(0, 1, A), sent(0, 2, A)]
    seen = view(made, logp=-9.0)
    assert verdicts(duplicates, DuplicatesDefence(), seen, [False, True, True]) == [False, False, True]


def test_likely_answers_may_agree():
    """n = 3, m = 2: the chance is C(3, 2) * q."""
    made = [sent(0, 0, (5, END)), sent(0, 1, (5, END)), sent(0, 2, (6, END))]
    for chance, expected in ((0.9e-4, True), (1.1e-4, False)):
        seen = view(made, logp=math.log(chance / 3) / 2)
        assert verdicts(duplicates, DuplicatesDefence(), seen) == [False, expected, False]
    assert verdicts(duplicates, DuplicatesDefence(p=0.5), seen) == [False, True, False]


def test_the_probability_is_the_samplers():
    """What truncation kept counts: q = 1e-6 of a kept mass of 1e-4 is 0.01."""
    made = [sent(0, 0, (5, END)), sent(0, 1, (5, END))]
    q = math.log(1e-6) / 2
    assert verdicts(duplicates, DuplicatesDefence(), view(made, logp=q)) == [False, True]
    assert verdicts(duplicates, DuplicatesDefence(), view(made, logp=q, kept=math.log(1e-4) / 2)) == [
        False,
        False,
    ]


def near(changed: int) -> tuple[int, ...]:
    """LONG with one token changed: 4 of its 57 runs of four are others."""
    return tuple(70 if i == changed else x for i, x in enumerate(LONG))


def test_near_copies():
    """53 shared runs of 61: 0.869; at the edge only one run is lost: 56 of 58, 0.966."""
    seen = view([sent(0, 0, LONG), sent(0, 1, near(30)), sent(0, 2, near(59))], logp=-1.0)
    assert verdicts(duplicates, DuplicatesDefence(), seen) == [False, False, True]
    assert verdicts(duplicates, DuplicatesDefence(similarity=0.86), seen) == [False, True, True]
    assert verdicts(duplicates, DuplicatesDefence(similarity=None), seen) == [False] * 3


def test_a_near_copy_is_as_improbable_as_what_it_shares():
    """The one token that differs may be as unlikely as it likes."""
    seen = view([sent(0, 0, LONG), sent(0, 1, near(59))], logp=-0.1)
    seen.readings.logp_NT[1, 59] = -50.0
    assert verdicts(duplicates, DuplicatesDefence(), seen) == [False, False]


def test_short_completions_compare_as_wholes():
    seen = view([sent(0, 0, (5, 6)), sent(0, 1, (5, 6)), sent(0, 2, (5, 7)), sent(0, 3, (5,))], logp=-9.0)
    assert verdicts(duplicates, DuplicatesDefence(), seen) == [False, True, False, False]


@pytest.mark.parametrize("skill", [0.01, 0.2, 0.9])
def test_honest_short_answers_are_left_alone(skill: float):
    """600 groups of 12 from a policy with one frequent answer and 500 rare ones: at most one in 10,000
    groups loses a completion, though most groups hold duplicates."""
    random = np.random.default_rng(5)
    p = np.array([skill] + [(1 - skill) / 500] * 500)
    doubled = touched = 0
    for _ in range(600):
        drawn = random.choice(len(p), 12, p=p).tolist()
        doubled += max(Counter(drawn).values()) > 1
        seen = view([sent(0, slot, (4 + x, END)) for slot, x in enumerate(drawn)], logp=0.0)
        seen.readings.logp_NT[:, 0] = seen.readings.logp_NT.new_tensor(np.log(p[drawn]))
        touched += any(verdicts(duplicates, DuplicatesDefence(), seen))
    assert touched <= 1 < doubled
