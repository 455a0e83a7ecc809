"""G12: a NaN ruins the model. Here: the update is skipped and counted, and training stops after a few."""

from __future__ import annotations

import pytest
import torch

from grpo.toys import make_groups, make_policy, spec_of
from hanse.errors import EXIT_NON_FINITE, NonFiniteError
from hanse.grpo.learner import Learner


def poisoned(policy, spec, value: float):
    groups = make_groups(policy, spec)
    groups[2].advantages_G = torch.tensor([value, -1.0, 1.0, 0.0])
    return groups


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_non_finite_gradient_touches_neither_parameters_nor_moments(value: float):
    policy = make_policy()
    spec = spec_of()
    learner = Learner(policy, spec, 10)
    learner.step(make_groups(policy, spec))
    before, first = policy.parameters.sha256(), learner.state.moments.first.clone()
    learner.step(poisoned(policy, spec, value))
    assert policy.parameters.sha256() == before
    assert torch.equal(learner.state.moments.first, first)
    assert learner.state.moments.updates == 1
    assert learner.state.counters["non_finite_steps"] == 1
    assert learner.state.non_finite_streak == 1


def test_a_good_update_ends_the_streak():
    policy = make_policy()
    spec = spec_of(max_non_finite_steps=2)
    learner = Learner(policy, spec, 10)
    for _ in range(3):
        learner.step(poisoned(policy, spec, float("nan")))
        learner.step(make_groups(policy, spec))
    assert learner.state.counters["non_finite_steps"] == 3
    assert learner.state.non_finite_streak == 0


def test_training_stops_after_k_in_a_row_and_keeps_the_last_good_parameters():
    policy = make_policy()
    spec = spec_of(max_non_finite_steps=3)
    learner = Learner(policy, spec, 10)
    before = policy.parameters.sha256()
    bad = poisoned(policy, spec, float("nan"))
    learner.step(bad)
    learner.step(bad)
    with pytest.raises(NonFiniteError, match="3 updates in a row had a non-finite gradient") as caught:
        learner.step(bad)
    assert caught.value.exit_code == EXIT_NON_FINITE
    assert policy.parameters.sha256() == before
    assert policy.parameters.master.isfinite().all()
