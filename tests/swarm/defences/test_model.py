"""Checks against what the receiver's policy says, token by token."""

from __future__ import annotations

import math

import pytest
import torch

from hanse.recipe.swarm import MinPDefence, ReplayDefence, TerminationDefence, TopKDefence, TypicalityDefence
from hanse.swarm.defences import DEFENCES
from swarm.made import END, LIMIT, sent, verdicts, view

SHORT, LONG = (5, 6, END), (5, 6, 7, 8, END)
MADE = [sent(0, 0, SHORT), sent(0, 1, LONG), sent(1, 2, LONG), sent(1, 3, SHORT)]


def at(places: dict[tuple[int, int], float], honest: float) -> torch.Tensor:
    """Values of the four deliveries, by place."""
    values = torch.full((4, 5), honest)
    for place, value in places.items():
        values[place] = value
    return values


@pytest.mark.parametrize(
    ("name", "spec", "reading", "honest", "bad"),
    [
        ("top-k", TopKDefence(), "margin", 1.0, -0.002),
        ("min-p", MinPDefence(min_p=1e-3), "gap", -1.0, math.log(1e-3) - 0.01),
        ("replay", ReplayDefence(), "replay", 0.0, 0.002),
    ],
)
def test_one_bad_token_is_enough_wherever_it_stands(name, spec, reading, honest, bad):
    """The end token and the last place of the longest completion included; behind the end nothing counts."""
    places = {(1, 0): bad, (2, 4): bad, (3, 2): bad, (0, 3): bad}
    seen = view(MADE, **{reading: at(places, honest)})
    assert verdicts(DEFENCES[name], spec, seen) == [False, True, True, True]


@pytest.mark.parametrize("name", ["top-k", "min-p", "replay"])
def test_a_full_length_completion_without_an_end_is_read_to_its_last_token(name):
    """The published code takes the first padding for the end, finds none, and accepts anything."""
    full = tuple(range(4, 4 + LIMIT))
    values = torch.full((1, LIMIT), 5.0 if name == "replay" else -50.0)
    reading = {"top-k": "margin", "min-p": "gap", "replay": "replay"}[name]
    spec = {"top-k": TopKDefence(), "min-p": MinPDefence(), "replay": ReplayDefence()}[name]
    for t in range(LIMIT):
        one = torch.zeros(1, LIMIT)
        one[0, t] = values[0, t]
        assert verdicts(DEFENCES[name], spec, view([sent(0, 0, full)], **{reading: one})) == [True]
    assert verdicts(DEFENCES[name], spec, view([sent(0, 0, full)], **{reading: torch.zeros(1, LIMIT)})) == [
        False
    ]


@pytest.mark.parametrize(
    ("name", "spec", "reading", "honest", "bad"),
    [
        ("top-k", TopKDefence, "margin", 1.0, -1.0),
        ("min-p", MinPDefence, "gap", -1.0, -20.0),
        ("replay", ReplayDefence, "replay", 0.0, 1.0),
    ],
)
def test_violations_are_a_budget(name, spec, reading, honest, bad):
    places = {(1, 0): bad, (2, 0): bad, (2, 3): bad}
    places |= {(0, 0): bad, (0, 1): bad, (0, 2): bad}
    seen = view(MADE, **{reading: at(places, honest)})
    assert verdicts(DEFENCES[name], spec(violations=1), seen) == [True, False, True, False]
    assert verdicts(DEFENCES[name], spec(violations=2), seen) == [True, False, False, False]
    assert verdicts(DEFENCES[name], spec(violations=5), seen) == [False] * 4
    assert verdicts(DEFENCES[name], spec(violations=9), seen) == [False] * 4


def test_tolerances():
    seen = view(MADE, margin=at({(0, 0): -0.0009, (1, 0): -0.0011}, 1.0))
    assert verdicts(DEFENCES["top-k"], TopKDefence(), seen) == [False, True, False, False]
    seen = view(MADE, replay=at({(0, 0): 0.0009, (1, 0): 0.0011}, 0.0))
    assert verdicts(DEFENCES["replay"], ReplayDefence(), seen) == [False, True, False, False]


def test_no_cut_no_margin():
    assert verdicts(DEFENCES["top-k"], TopKDefence(), view(MADE, margin=torch.inf)) == [False] * 4


def test_near_ties_of_accepted_completions_are_counted():
    replay = at({(0, 0): 5e-4, (1, 1): 5e-4, (1, 2): 2e-4, (2, 0): 0.5, (2, 1): 5e-4, (3, 4): 5e-4}, 0.0)
    finding = DEFENCES["replay"](
        ReplayDefence(ties=0.4), view(MADE, replay=replay), torch.tensor([False, True, True, True])
    )
    assert finding.figures == {"sites": 2.0, "tied": 0.0}


def test_near_ties_are_no_alphabet():
    """Each by itself is rounding; a completion that uses them all was written, not drawn."""
    full = sent(0, 0, tuple(range(4, 4 + LIMIT)))
    for used, allowed in ((1, 0.02), (2, 0.13), (2, 0.25), (8, 1.0)):
        lead = torch.zeros(1, LIMIT)
        lead[0, :used] = 5e-4
        seen = view([full], replay=lead)
        assert verdicts(DEFENCES["replay"], ReplayDefence(ties=allowed), seen) == [False]
    spec, asked = ReplayDefence(), torch.ones(1, dtype=torch.bool)
    lead = torch.tensor([[5e-4, 0, 0, 0, 0, 0, 0, 2e-4]])
    finding = DEFENCES["replay"](spec, view([full], replay=lead), asked)
    assert finding.rejected_N.tolist() == [True] and finding.figures == {"sites": 0.0, "tied": 1.0}
    assert verdicts(DEFENCES["replay"], ReplayDefence(ties=0), view([full], replay=lead * 0)) == [False]


def test_violations_are_not_counted_as_ties():
    lead = torch.tensor([[5.0, 5e-4, 0, 0, 0, 0, 0, 0]])
    seen = view([sent(0, 0, tuple(range(4, 4 + LIMIT)))], replay=lead)
    assert verdicts(DEFENCES["replay"], ReplayDefence(violations=1), seen) == [False]


def test_ends_that_nobody_expects():
    logp = at({(0, 2): math.log(0.019), (1, 4): math.log(0.021), (2, 0): -30.0}, -0.5)
    full = sent(1, 3, tuple(range(4, 9)))
    seen = view([*MADE[:3], full], logp=logp.index_fill(0, torch.tensor([3]), -30.0))
    assert verdicts(DEFENCES["termination"], TerminationDefence(), seen) == [True, False, False, False]
    assert verdicts(DEFENCES["termination"], TerminationDefence(min_probability=0), seen) == [False] * 4


def test_surprise_over_the_whole():
    """z = sum(surprise) / sqrt(1 + sum Var): (L * x) / sqrt(1 + L * 0.25), L = 5."""
    limit = 5 * math.sqrt(1 + 5 * 0.25) / 5
    for x, expected in ((limit - 0.01, False), (limit + 0.01, True)):
        seen = view(MADE, logp=at({(1, t): -0.5 - x for t in range(5)}, -0.5))
        spec = TypicalityDefence(window_z=1e6)
        assert verdicts(DEFENCES["typicality"], spec, seen) == [False, expected, False, False]


def test_surprise_in_a_window():
    """A short phrase in a long text: windows of two of five tokens, the end's among them."""
    limit = 4 * math.sqrt(1 + 2 * 0.25) / 2
    for x, expected in ((limit - 0.01, False), (limit + 0.01, True)):
        seen = view(MADE, logp=at({(1, 3): -0.5 - x, (1, 4): -0.5 - x}, -0.5))
        spec = TypicalityDefence(z=1e6, window=2, window_z=4)
        assert verdicts(DEFENCES["typicality"], spec, seen) == [False, expected, False, False]


def test_behind_the_end_nothing_surprises():
    seen = view(MADE, logp=at({(0, 3): -100.0, (0, 4): -100.0}, -0.5))
    assert verdicts(DEFENCES["typicality"], TypicalityDefence(), seen) == [False] * 4


def test_a_window_wider_than_all_is_the_whole():
    seen = view(MADE[:1], logp=torch.tensor([[-5.0, -5.0, -5.0]]))
    assert verdicts(DEFENCES["typicality"], TypicalityDefence(window=100), seen) == [True]


def test_a_certain_policy_forgives_a_rare_token():
    """p = 0.01 where the variance is 0.01: 46 deviations without the 1 nat²."""
    seen = view(MADE, entropy=0.01, variance=0.01, logp=at({(1, 2): -4.6}, -0.01))
    assert verdicts(DEFENCES["typicality"], TypicalityDefence(), seen) == [False] * 4
