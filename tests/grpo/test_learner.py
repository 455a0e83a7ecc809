from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from grpo.toys import Recorder, gradient_of, make_groups, make_policy, relative, spec_of
from hanse.grpo import learner as learner_module
from hanse.grpo.batch import pack
from hanse.grpo.learner import Learner
from hanse.grpo.step import assign_advantages
from hanse.policy.logprobs import completion_logprobs

OUT_OF_MEMORY = "[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"


def _limit_memory(monkeypatch: pytest.MonkeyPatch, rollouts: int, error: type[Exception]) -> list[int]:
    seen: list[int] = []

    def limited(policy, prompts, tokens, temperature):
        count = tokens.shape[0] * tokens.shape[1]
        seen.append(count)
        if count > rollouts:
            raise error(OUT_OF_MEMORY)
        return completion_logprobs(policy, prompts, tokens, temperature)

    monkeypatch.setattr(learner_module, "completion_logprobs", limited)
    return seen


@pytest.mark.parametrize("error", [RuntimeError, torch.OutOfMemoryError])
@pytest.mark.parametrize("fitting", [8, 4, 2, 1])
def test_out_of_memory_halves_the_micro_batch_and_goes_on_with_the_same_result(monkeypatch, fitting, error):
    policy = make_policy()
    spec = spec_of()
    groups = make_groups(policy, spec)
    loss, gradient = gradient_of(policy, spec, groups)
    seen = _limit_memory(monkeypatch, fitting, error)
    learner = Learner(policy, spec.model_copy(update={"micro_batch": 16}), 10)
    record = Recorder(learner)
    metrics = learner.step(groups)
    assert relative(record.gradients[0], gradient) < 2e-6
    assert metrics["loss"] == pytest.approx(loss, abs=1e-6)
    assert learner.state.micro_batch == fitting
    assert learner.state.counters["oom_halvings"] == len([n for n in seen if n > fitting])
    before = learner.state.counters["oom_halvings"]
    learner.step(groups)  # the smaller micro-batch stays
    assert learner.state.counters["oom_halvings"] == before


def test_out_of_memory_at_one_rollout_and_other_errors_are_raised(monkeypatch):
    policy = make_policy()
    spec = spec_of()
    groups = make_groups(policy, spec)
    _limit_memory(monkeypatch, 0, RuntimeError)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        Learner(policy, spec, 10).step(groups)
    monkeypatch.setattr(learner_module, "completion_logprobs", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Learner(policy, spec, 10).step(groups)


@pytest.mark.parametrize("fitting", [8, 2, 1])
def test_log_probs_without_gradient_halve_the_micro_batch_too(monkeypatch, fitting):
    policy = make_policy()
    spec = spec_of(micro_batch=16)
    batch = pack(make_groups(policy, spec))
    whole = Learner(policy, spec, 10).logprobs(batch)
    _limit_memory(monkeypatch, fitting, RuntimeError)
    learner = Learner(policy, spec, 10)
    torch.testing.assert_close(learner.logprobs(batch), whole, rtol=0, atol=5e-6)
    assert learner.state.micro_batch == fitting
    assert not whole.requires_grad


def test_groups_without_an_advantage_are_left_out_and_cost_no_gradient(monkeypatch):
    policy = make_policy()
    spec = spec_of()
    groups = make_groups(policy, spec)
    groups[1].rewards_G = torch.ones(4, dtype=torch.float64)
    assign_advantages(groups, spec)
    seen = _limit_memory(monkeypatch, 99, RuntimeError)
    _, gradient = gradient_of(policy, spec, groups)
    busy = sum(bool(g.advantages_G.any()) for g in groups)
    assert sum(seen) == 4 * busy < 16
    monkeypatch.setattr(learner_module, "without_idle_groups", lambda batch: batch)
    _, whole = gradient_of(policy, spec, groups)
    assert relative(gradient, whole) < 2e-6


def test_with_a_kl_penalty_no_group_is_idle(monkeypatch):
    policy = make_policy()
    spec = spec_of(beta=0.1)
    groups = make_groups(policy, spec)
    groups[1].rewards_G = torch.ones(4, dtype=torch.float64)
    assign_advantages(groups, spec)
    learner = Learner(policy, spec, 10)
    policy.parameters.load(policy.parameters.master * 1.05)
    seen = _limit_memory(monkeypatch, 99, RuntimeError)
    metrics = learner.step(groups)
    assert sum(seen) == 2 * 16  # once under the policy, once under the reference
    assert metrics["kl"] > 0


def test_a_step_without_any_advantage_is_skipped_and_counted():
    policy = make_policy()
    spec = spec_of()
    groups = make_groups(policy, spec)
    for g in groups:
        g.advantages_G = torch.zeros(4)
    before = policy.parameters.sha256()
    learner = Learner(policy, spec, 10)
    assert "grad_norm" not in learner.step(groups)
    assert policy.parameters.sha256() == before
    assert learner.state.counters["skipped_steps"] == 1
    assert (learner.state.step, learner.state.moments.updates) == (1, 0)


def test_the_gradient_is_clipped_to_its_norm():
    policy = make_policy()
    spec = spec_of(max_grad_norm=0.01)
    groups = make_groups(policy, spec)
    _, whole = gradient_of(policy, spec_of(), groups)
    learner = Learner(policy, spec, 10)
    record = Recorder(learner)
    metrics = learner.step(groups)
    assert metrics["grad_norm"] == pytest.approx(float(whole.norm()), rel=1e-5)
    assert float(record.gradients[0].norm()) == pytest.approx(0.01, rel=1e-4)
    assert relative(record.gradients[0] / 0.01, whole / whole.norm()) < 1e-4


def test_iterations_and_mini_batches_make_that_many_updates_on_the_same_old_log_probs():
    policy = make_policy()
    spec = spec_of(iterations=3, mini_batches=2, lr=0.05)
    groups = make_groups(policy, spec)
    learner = Learner(policy, spec, 10)
    record = Recorder(learner)
    metrics = learner.step(groups)
    assert len(record.gradients) == 6
    assert learner.state.moments.updates == 6
    assert learner.state.step == 1
    assert metrics["clip_ratio/region_mean"] > 0
    first_half, _ = gradient_of(policy_at_start(), spec, groups[:2])
    assert record.losses[0] == pytest.approx(first_half, abs=1e-6)


def policy_at_start():
    return make_policy()


def test_old_log_probs_are_the_samplers_own_in_float32():
    policy = make_policy()
    spec = spec_of(iterations=2)
    groups = make_groups(policy, spec)
    shifted = [replace(g, logp_GT=g.logp_GT - 0.5) for g in groups]
    learner = Learner(policy, spec, 10)
    metrics = learner.step(shifted)
    assert metrics["sampling/sampling_logp_difference/mean"] == pytest.approx(0.5, abs=0.05)
    on_policy = Learner(make_policy(), spec_of(), 10).step(groups)
    assert on_policy["sampling/sampling_logp_difference/mean"] < 1e-5
    assert on_policy["clip_ratio/region_mean"] == 0


@pytest.mark.parametrize(
    ("correction", "shift", "factor"),
    [("truncate", 0.5, 2.718281828**0.5), ("truncate", 5.0, 2.0), ("mask", 0.5, 2.718281828**0.5)],
)
def test_the_importance_correction_weighs_learner_over_sampler(correction, shift, factor):
    policy = make_policy()
    groups = make_groups(policy, spec_of())
    _, plain = gradient_of(policy, spec_of(), groups)
    shifted = [replace(g, logp_GT=g.logp_GT - shift) for g in groups]
    _, corrected = gradient_of(policy, spec_of(importance_correction=correction), shifted)
    assert relative(corrected, plain * factor) < 1e-5


def test_the_mask_correction_drops_tokens_outside_the_cap_on_both_sides():
    for shift in (-0.8, 0.8):
        policy = make_policy()
        groups = make_groups(policy, spec_of())
        for g in groups:
            g.logp_GT[:, 0] -= shift
        spec = spec_of(importance_correction="mask", importance_cap=2.0)
        gradients = [gradient_of(policy, spec, groups)[1]]
        for g in groups:
            g.logp_GT[:, 0] -= 10 * shift  # far outside either way: the same
        gradients.append(gradient_of(policy, spec, groups)[1])
        assert torch.equal(*gradients)


def test_bfloat16_policies_learn_through_float32_masters():
    policy = make_policy()
    groups = make_groups(policy, spec_of())
    half = make_policy()
    half.model.to(torch.bfloat16)
    half.parameters = type(half.parameters)(half.model)
    learner = Learner(half, spec_of(lr=1e-6, iterations=2), 10)
    start = half.parameters.master.clone()
    cast = half.parameters.cast.clone()
    metrics = learner.step(groups)
    assert (half.parameters.master != start).float().mean() > 0.9
    assert (half.parameters.cast != cast).float().mean() < 0.1
    assert metrics["sampling/sampling_logp_difference/mean"] < 0.1
