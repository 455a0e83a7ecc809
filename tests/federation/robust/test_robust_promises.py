"""What every robust rule promises, whoever the liars are."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hanse.federation.robust import ROBUST
from hanse.recipe.robust import RobustSpec
from tests.federation.robust.views import RULES, moved, settle

DIMENSION = 6
HULL = ("krum", "multi-krum", "bulyan", "dnc", "median", "trimmed-mean")
CHOOSING = ("krum", "multi-krum", "bulyan")
"""Whose scores tie up to rounding where mixed updates differ by the same two clients."""
BOUNDED = (*HULL, "geometric-median")
ROOT = torch.full((DIMENSION,), 0.5).double()


def honest(count: int, seed: int, spread: float = 0.1) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return 0.5 + spread * torch.randn(count, DIMENSION, generator=draw, dtype=torch.float64)


def clients_for(rule: str, liars: int) -> int:
    return RobustSpec(rule=rule).fewest(liars) + 2


def lies(kind: str, truth: Tensor, liars: int, scale: float) -> Tensor:
    """Far away, each its own way; the opposite of the truth; or all together at one place."""
    draw = torch.Generator().manual_seed(int(scale) % 1000)
    if kind == "apart":
        return scale * torch.randn(liars, DIMENSION, generator=draw, dtype=torch.float64)
    middle = truth.mean(0)
    return torch.stack([-scale * middle if kind == "opposite" else middle + scale] * liars)


def test_every_rule_is_tested():
    assert set(RULES) == set(ROBUST)


@pytest.mark.parametrize("mixing", ["none", "nearest", "bucketing"])
@pytest.mark.parametrize("rule", RULES)
def test_identical_clients_are_one(rule, mixing):
    truth = honest(1, 3)[0]
    count = RobustSpec(rule=rule, mixing=mixing).fewest(1) + 1
    settled = settle(rule, truth.repeat(count, 1), 1, root=truth, mixing=mixing)
    assert torch.allclose(moved(settled), truth, rtol=1e-9)
    assert sum(settled.coefficients_C) == pytest.approx(1)


@pytest.mark.parametrize(
    ("rule", "mixing"), [(r, "none") for r in RULES] + [(r, "nearest") for r in RULES if r not in CHOOSING]
)
@given(seed=st.integers(0, 999), order=st.randoms(use_true_random=False))
@settings(max_examples=5, deadline=None)
def test_the_order_of_clients_does_not_matter(rule, mixing, seed, order):
    updates = honest(clients_for(rule, 2), seed, 1.0)
    places = list(range(len(updates)))
    order.shuffle(places)
    one, other = (settle(rule, u, 2, root=ROOT, mixing=mixing) for u in (updates, updates[places]))
    assert torch.allclose(moved(one), moved(other), rtol=1e-7, atol=1e-9)
    assert other.coefficients_C == pytest.approx([one.coefficients_C[i] for i in places], abs=1e-6)


@pytest.mark.parametrize("mixing", ["none", "nearest"])
@pytest.mark.parametrize("rule", HULL)
@given(seed=st.integers(0, 999), liars=st.integers(1, 3), exponent=st.integers(3, 6))
@settings(max_examples=8, deadline=None)
def test_liars_far_away_leave_the_result_among_the_honest(rule, mixing, seed, liars, exponent):
    truth = honest(clients_for(rule, liars) - liars, seed)
    updates = torch.cat([truth, lies("apart", truth, liars, 10.0**exponent)])
    result = moved(settle(rule, updates, liars, mixing=mixing))
    assert bool((result <= truth.max(0).values + 1e-9).all())
    assert bool((result >= truth.min(0).values - 1e-9).all())


@pytest.mark.parametrize("rule", BOUNDED)
@given(
    seed=st.integers(0, 999),
    liars=st.integers(1, 3),
    kind=st.sampled_from(["apart", "opposite", "together"]),
    scale=st.floats(0.5, 1e6),
)
@settings(max_examples=15, deadline=None)
def test_no_lie_moves_the_result_further_than_honest_clients_differ(rule, seed, liars, kind, scale):
    """Krum's score bounds a chosen liar's distance to its nearest honest client by sqrt(n) honest
    diameters; the geometric median lies within 2 (n - f) / (n - 2 f) honest radii."""
    truth = honest(clients_for(rule, liars) - liars, seed, 0.02)
    updates = torch.cat([truth, lies(kind, truth, liars, scale)])
    radius = float((truth - truth.mean(0)).norm(dim=1).max())
    result = moved(settle(rule, updates, liars))
    count = len(updates)
    bound = max(2 * math.sqrt(count) + 1, 2 * (count - liars) / (count - 2 * liars))
    assert float((result - truth.mean(0)).norm()) <= bound * radius


@pytest.mark.parametrize("rule", ["norm-clipping", "centred-clipping", "fltrust"])
@given(seed=st.integers(0, 999), scale=st.floats(1.0, 1e6))
@settings(max_examples=10, deadline=None)
def test_a_clipped_liar_has_no_more_than_an_honest_length(rule, seed, scale):
    truth = honest(7, seed)
    quiet, loud = (
        settle(rule, torch.cat([truth, lie]), 1, root=ROOT) for lie in (truth[:1], scale * ROOT[None])
    )
    longest = float(truth.norm(dim=1).max())
    assert float((moved(quiet) - moved(loud)).norm()) <= longest
    assert float(moved(loud).norm()) <= 1.001 * longest


def test_the_plain_mean_is_what_these_promises_rule_out():
    truth = honest(7, 0)
    updates = torch.cat([truth, lies("opposite", truth, 1, 1e6)])
    assert float((updates.mean(0) - truth.mean(0)).norm()) > 1e4


@pytest.mark.parametrize("rule", ["krum", "multi-krum", "bulyan", "geometric-median", "dnc"])
def test_a_crowd_that_had_nothing_to_learn_is_no_agreement(rule):
    truth = honest(7, 0)
    updates = torch.cat([truth, torch.zeros(9, DIMENSION).double()])
    settled = settle(rule, updates, 1)
    assert settled.coefficients_C[7:] == [0] * 9
    assert moved(settled).tolist() == moved(settle(rule, truth, 1)).tolist()


@pytest.mark.parametrize("rule", RULES)
def test_too_few_that_moved_do_not_stop_a_round(rule):
    """Who sends nothing still counts, as an update of length zero."""
    count = clients_for(rule, 1)
    updates = torch.cat([honest(1, 0), torch.zeros(count - 1, DIMENSION).double()])
    result = moved(settle(rule, updates, 1, root=ROOT))
    assert bool(result.isfinite().all())
    assert float(result.norm()) <= float(ROOT.norm()) * 2


@pytest.mark.parametrize("rule", RULES)
def test_nobody_moved(rule):
    settled = settle(rule, torch.zeros(7, DIMENSION).double(), 1, root=ROOT)
    assert moved(settled).tolist() == [0] * DIMENSION
    assert all(math.isfinite(c) for c in settled.coefficients_C)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scale", [1e-12, 1e6])
def test_rules_do_not_depend_on_the_unit(rule, scale):
    updates = honest(clients_for(rule, 2), 5, 1.0)
    one = settle(rule, updates, 2, root=ROOT)
    other = settle(rule, scale * updates, 2, root=scale * ROOT)
    assert torch.allclose(moved(other) / scale, moved(one), rtol=1e-6, atol=1e-9)
