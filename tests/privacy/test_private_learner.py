from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo.toys import Recorder, gradient_of, make_groups, make_policy, relative, spec_of
from hanse.grpo.learner import Accumulator
from hanse.grpo.step import assign_advantages
from hanse.privacy import learner as learner_module
from hanse.privacy.learner import PrivateLearner, Query
from hanse.privacy.noise import KEY, Stream

STREAM = Stream(bytes(KEY))
PLAIN = Query(clip=1e9, noise=0.0, expected=4)


def clipped_sum(policy, spec, groups, query) -> torch.Tensor:
    return PrivateLearner(policy, spec, 10).clipped_sum(groups, query, Accumulator())


def one_by_one(monkeypatch) -> None:
    monkeypatch.setattr(learner_module, "is_plain", lambda model: False)


@pytest.mark.parametrize("objective", ["grpo", "dr_grpo", "gspo", "rloo"])
@pytest.mark.parametrize("changes", [{}, {"beta": 0.1}, {"importance_correction": "truncate", "top_k": 5}])
def test_without_noise_and_without_a_clip_it_is_the_plain_step_bit_for_bit(monkeypatch, objective, changes):
    """The plain learner adds up one group at a time, too, if its micro-batch is a group."""
    one_by_one(monkeypatch)
    policy = make_policy()
    spec = spec_of(objective=objective, micro_batch=4, **changes)
    groups = make_groups(policy, spec)
    start = policy.parameters.master.clone()
    plain = PrivateLearner(policy, spec, 10)
    record = Recorder(plain)
    plain.step(groups)
    after = policy.parameters.master.clone()
    policy.load(start)
    private = PrivateLearner(policy, spec, 10)
    again = Recorder(private)
    metrics = private.private_step(groups, PLAIN, STREAM)
    assert torch.equal(again.gradients[0], record.gradients[0])
    assert torch.equal(policy.parameters.master, after) and not torch.equal(after, start)
    assert metrics["grad_norm"] == pytest.approx(float(record.gradients[0].norm()))


@pytest.mark.parametrize("objective", ["grpo", "dr_grpo", "gspo", "rloo"])
def test_groups_together_are_groups_one_by_one(monkeypatch, objective):
    policy = make_policy()
    spec = spec_of(objective=objective)
    groups = make_groups(policy, spec)
    norms = _norms(policy, spec, groups)
    query = replace(PLAIN, clip=1.01 * float(norms.median()))
    together = clipped_sum(policy, spec, groups, query)
    assert relative(clipped_sum(policy, spec, groups, PLAIN), gradient_of(policy, spec, groups)[1]) < 2e-6
    monkeypatch.setattr(learner_module, "_VALUES_AT_ONCE", 2 * policy.parameters.numel)
    assert relative(clipped_sum(policy, spec, groups, query), together) < 2e-6
    one_by_one(monkeypatch)
    assert relative(clipped_sum(policy, spec, groups, query), together) < 2e-6
    small = spec.model_copy(update={"micro_batch": 2})
    assert relative(clipped_sum(policy, small, groups, query), together) < 2e-6


def _norms(policy, spec, groups) -> torch.Tensor:
    """Of each group's gradient on the scale of `clip`."""
    alone = [clipped_sum(policy, spec, [group], replace(PLAIN, expected=1)) for group in groups]
    return torch.stack(alone).double().norm(dim=1)


@given(st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4), st.floats(0.01, 10), st.booleans())
@settings(max_examples=12, deadline=None)
def test_no_rewards_make_a_group_count_for_more_than_the_clip(rewards, clip, scaled):
    policy = make_policy()
    spec = spec_of(scale="group" if scaled else "none")
    group = make_groups(policy, spec)[1]
    group.rewards_G = torch.tensor(rewards, dtype=torch.float64)
    assign_advantages([group], spec)
    assert float(clipped_sum(policy, spec, [group], Query(clip, 0.0, 1)).double().norm()) <= clip


def test_a_group_s_share_does_not_depend_on_its_batch_mates():
    """Nor does anybody's, when one of them gets other rewards or goes away."""
    policy = make_policy()
    spec = spec_of()
    groups = make_groups(policy, spec)
    query = replace(PLAIN, clip=0.5)
    shares = [clipped_sum(policy, spec, [g], query) for g in groups]
    whole = clipped_sum(policy, spec, groups, query)
    assert relative(sum(shares), whole) < 2e-6  # type: ignore[arg-type]
    without = clipped_sum(policy, spec, groups[:-1], query)
    assert relative(whole - without, shares[-1]) < 2e-5


def test_more_rollouts_a_group_do_not_count_for_more():
    policy = make_policy()
    for size in (2, 8):
        spec = spec_of(group_size=size, scale="none")
        groups = make_groups(policy, spec, ["1+2="])
        groups[0].advantages_G = groups[0].advantages_G * 1e9
        share = clipped_sum(policy, spec, groups, Query(0.3, 0.0, 1))
        assert float(share.double().norm()) == pytest.approx(0.3, rel=3e-4)


def test_noise_has_the_deviation_that_was_asked_for_and_comes_once():
    policy = make_policy()
    spec = spec_of(micro_batch=4)  # four micro-batches
    groups = make_groups(policy, spec)
    learner = PrivateLearner(policy, spec, 10)
    record = Recorder(learner)
    start = policy.parameters.master.clone()
    query = Query(clip=0.5, noise=3.0, expected=8)
    exact = clipped_sum(policy, spec, groups, query)
    learner.private_step(groups, query, STREAM)
    noise = (record.gradients[0] - exact).double() / (3.0 * 0.5 / 8)
    assert relative(noise, STREAM.normal(len(noise))) < 1e-6
    assert abs(float(noise.var()) - 1) < 5 * (2 / len(noise)) ** 0.5
    assert not torch.equal(policy.parameters.master, start)


@pytest.mark.parametrize("groups", ["none", "uninformative"])
def test_without_anything_to_learn_the_step_is_noise(groups):
    policy = make_policy()
    spec = spec_of()
    made = [] if groups == "none" else make_groups(policy, spec)
    for group in made:
        group.rewards_G = torch.ones(4, dtype=torch.float64)
    if made:
        assign_advantages(made, spec)
    learner = PrivateLearner(policy, spec, 10)
    record = Recorder(learner)
    learner.private_step(made, Query(2.0, 1.0, 4), STREAM)
    assert torch.equal(record.gradients[0], (0.5 * STREAM.normal(policy.parameters.numel)).float())
    assert learner.state.step == learner.state.moments.updates == 1
    assert not learner.state.counters["skipped_steps"]


def test_a_group_with_a_gradient_that_is_not_finite_counts_as_none_and_stops_nothing():
    policy = make_policy()
    spec = spec_of()
    groups = make_groups(policy, spec)
    others = clipped_sum(policy, spec, groups[1:], PLAIN)
    groups[0].advantages_G = torch.tensor([torch.inf, 0, 0, 0])
    assert relative(clipped_sum(policy, spec, groups, PLAIN), others) < 2e-6


def test_denominators_are_expected_ones():
    policy = make_policy()
    spec = spec_of()
    groups = make_groups(policy, spec)
    whole = clipped_sum(policy, spec, groups, PLAIN)
    assert relative(clipped_sum(policy, spec, groups, replace(PLAIN, expected=8)) * 2, whole) < 1e-6


def test_running_out_of_memory_halves_and_changes_nothing(monkeypatch):
    policy = make_policy()
    spec = spec_of(micro_batch=16)
    groups = make_groups(policy, spec)
    query = replace(PLAIN, clip=0.5)
    whole = clipped_sum(policy, spec, groups, query)
    learner = PrivateLearner(policy, spec, 10)
    backward = learner._backward

    def limited(micro, totals, metrics):
        if micro.rollouts > 4:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        backward(micro, totals, metrics)

    monkeypatch.setattr(learner, "_backward", limited)
    assert relative(learner.clipped_sum(groups, query, Accumulator()), whole) < 2e-6
    assert learner.state.micro_batch == 4
