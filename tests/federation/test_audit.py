"""Trust from outcomes: paired differences, evidence over rounds, and what becomes of an update."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanse.federation.audit import Evidence, Gain, absorbed, area, found_at, gain_of, probed, trust
from hanse.federation.auditor import Auditor
from hanse.federation.messages import Upload
from hanse.federation.screening import Screened
from hanse.federation.weighting import Standing, weigh
from hanse.recipe.audit import AuditSpec
from hanse.recipe.federation import FederationSpec
from tests.federation.test_screening import signal, upload

SPEC = AuditSpec(problems=8, strength=1.0, forget=0.5, floor=0.05, tolerance=0)
NAN = float("nan")


def test_a_gain_is_half_the_paired_difference():
    gain = gain_of(torch.tensor([1.0, 1.0, 0.0, NAN]), torch.tensor([0.0, 1.0, 1.0, 0.0]))
    assert gain.mean == 0.0  # halves 0.5, 0, -0.5
    assert gain.variance == pytest.approx((0.25 + 0.25) / 2 / 3)
    assert gain_of(torch.tensor([1.0, NAN]), torch.tensor([0.0, 0.0])) == Gain(0.0, 0.0)


def test_the_same_harm_on_every_problem_is_no_missing_evidence():
    """Halves -0.5 eight times, and as if a ninth were 0: variance of the mean (0.5 / 9)^2, 9 deviations."""
    gain = gain_of(torch.zeros(8), torch.ones(8))
    assert (gain.mean, gain.variance) == (-0.5, pytest.approx((0.5 / 9) ** 2))
    assert absorbed(SPEC, {}, {1: gain})[1].lowest < 1e-15
    few = gain_of(torch.tensor([0.0, 0.0] + [NAN] * 6), torch.ones(8))
    assert absorbed(SPEC, {}, {1: few})[1].lowest == pytest.approx(2 * NormalDist().cdf(-3))
    assert gain_of(torch.ones(8), torch.ones(8)) == Gain(0.0, 0.0)


def test_what_both_steps_lose_does_not_count():
    """Rewards 1 - s^2 d^2 around where they are best: alone it loses, along less against is 0."""
    reward = lambda values: 1 - values.square().sum() + torch.zeros(4)  # noqa: E731
    along, against = probed(torch.zeros(2), torch.tensor([3.0, 4.0]), 5.0, 5.0, 0.4)
    assert float(reward(along)[0]) < 1
    assert gain_of(reward(along), reward(against)).mean == pytest.approx(0)


def test_a_step_is_a_share_of_the_update_and_no_longer_than_the_median_one():
    base, values = torch.tensor([1.0, 1.0]), torch.tensor([4.0, 5.0])
    along, against = probed(base, values, 5.0, 10.0, 0.5)
    assert (along.tolist(), against.tolist()) == ([2.5, 3.0], [-0.5, -1.0])
    along, _ = probed(base, values, 5.0, 1.0, 0.5)
    assert float((along - base).norm()) == pytest.approx(0.5)
    assert probed(base, base, 0.0, 1.0, 0.5)[0].tolist() == [1.0, 1.0]


def test_evidence_adds_up_and_is_forgotten():
    once = absorbed(SPEC, {}, {1: Gain(-0.1, 0.01)})
    assert (once[1].gain, once[1].variance) == (-0.1, 0.01)
    twice = absorbed(SPEC, once, {1: Gain(0.0, 0.01), 2: Gain(0.3, 0.01)})
    assert (twice[1].gain, twice[1].variance) == (pytest.approx(-0.05), pytest.approx(0.0125))
    assert twice[1].lowest == pytest.approx(2 * NormalDist().cdf(-1))
    assert absorbed(SPEC, twice, {}) == twice
    tolerant = AuditSpec(problems=8, tolerance=0.1)
    assert absorbed(tolerant, {}, {1: Gain(-0.1, 0.01)})[1].gain == pytest.approx(0)


@pytest.mark.parametrize(
    ("gain", "variance", "level"),
    [
        (0.0, 0.01, 1.0),
        (0.2, 0.01, 1.0),
        (-0.1, 0.01, 2 * NormalDist().cdf(-1)),
        (-0.2, 0.01, 2 * NormalDist().cdf(-2)),
        (-5.0, 0.0, 1.0),
        (0.0, 0.0, 1.0),
    ],
)
def test_trust_is_how_likely_harm_is_to_be_chance(gain, variance, level):
    assert trust(SPEC, Evidence(gain, variance)) == pytest.approx(level)


def test_trust_is_lost_sooner_the_stronger_the_audit():
    levels = [trust(AuditSpec(strength=s), Evidence(-0.2, 0.01)) for s in (0.5, 1.0, 2.0)]
    assert levels == sorted(levels, reverse=True)


@given(st.floats(-10, 10), st.floats(0, 10))
def test_trust_is_a_share(gain, variance):
    assert 0 <= trust(SPEC, Evidence(gain, variance)) <= 1


def screened(client: int, value: float) -> Screened:
    some = Upload.from_bytes(upload(client=client), max_bytes=1 << 20)
    return Screened(client, some, abs(value), 1, values=torch.tensor([value]))


def probe(round: int, values):
    """The further to the right, the more of eight problems are solved."""
    return (torch.arange(8.0) / 4 - 1 < values).double()


def audited(number: int, spec=SPEC, before=None, *values: float):
    given = [screened(k, value) for k, value in enumerate(values)]
    return Auditor(spec, probe).audit(number, before or {}, torch.zeros(1), given, lambda s: s.values)


def test_an_update_that_harms_is_refused_and_says_why():
    heard, after = audited(1, SPEC, None, 1.0, -1.0, 1.0)
    assert [s.upload is None for s in heard] == [False, True, False]
    assert heard[1].reason.startswith("loses reward on the server's problems: trust ")
    assert (heard[0].trust, heard[0].reason) == (1.0, None)
    assert after[1].gain == -after[0].gain < 0


def test_a_crowd_that_had_nothing_to_learn_does_not_hide_a_liar():
    """The median of all lengths is 0: steps of no length would say the same of everybody."""
    heard, _ = audited(1, SPEC, None, 0.0, 0.0, 0.0, -1.0, 1.0)
    assert [s.upload is None for s in heard] == [False, False, False, True, False]


def test_a_refusal_may_be_made_up_for():
    _, before = audited(1, SPEC, None, 1.0, -1.0, 1.0)
    for number in range(2, 9):
        heard, before = audited(number, SPEC, before, 1.0, 1.0, 1.0)
    assert heard[1].upload is not None
    assert before[1].lowest < SPEC.floor


def test_between_audits_trust_stays_and_nobody_is_asked():
    spec = AuditSpec(problems=8, every=2)
    before = {1: Evidence(-9.0, 1.0)}
    heard, after = audited(1, spec, before, 1.0, 1.0)
    assert after == before
    assert [s.upload is None for s in heard] == [False, True]


def test_what_was_refused_before_stays_refused():
    bad = Screened(0, None, reason="why")
    heard, after = Auditor(SPEC, probe).audit(1, {}, torch.zeros(1), [bad], lambda s: 1 / 0)
    assert (heard, after) == ([bad], {})


def test_trust_multiplies_a_weight():
    standings = [Standing(k, signal(), 1.0, level) for k, level in enumerate((1.0, 0.5, 0.5))]
    weights, _ = weigh(FederationSpec(weighting="uniform"), {}, standings)
    assert weights == pytest.approx([0.5, 0.25, 0.25])


def test_trust_cannot_lift_anybody_above_the_cap():
    standings = [Standing(k, signal(), 1.0, level) for k, level in enumerate((1.0, 0.01, 0.01))]
    weights, _ = weigh(FederationSpec(weighting="reward-std", weights={"cap": 1.5}), {}, standings)
    assert weights == pytest.approx([0.5, 0.25, 0.25])


def test_the_roc_by_hand():
    assert area([0.1, 0.5], [0.5, 0.9]) == (1 + 1 + 0.5 + 1) / 4
    assert area([], [1.0]) is None
    honest = [0.2, *[1.0] * 19]
    assert found_at([0.1, 0.3, 1.0], honest, 0.05) == pytest.approx(2 / 3)  # one of twenty may be below
    assert found_at([0.1, 0.3, 1.0], honest, 0.0) == pytest.approx(1 / 3)
    assert math.isclose(found_at([0.1], [1.0], 0.05), 1.0)
