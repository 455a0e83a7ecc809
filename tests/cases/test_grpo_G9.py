"""G9: the k3 KL overflows and the loss is infinite. Here: clamped, finite, and the clamped share is shown."""

from __future__ import annotations

import pytest
import torch

from grpo.toys import Recorder, make_groups, make_policy, spec_of
from hanse.grpo.learner import Learner


@pytest.mark.parametrize("kl", ["k1", "k2", "k3"])
def test_a_huge_log_ratio_gives_a_finite_loss_and_is_counted(kl: str):
    policy = make_policy()
    spec = spec_of(beta=0.1, kl=kl)
    groups = make_groups(policy, spec)
    learner = Learner(policy, spec, 10)
    # The reference never says the tokens that were sampled: its logits are scaled up a hundredfold.
    assert policy._reference is not None
    policy._reference.mul_(10)
    record = Recorder(learner)
    metrics = learner.step(groups)
    assert torch.isfinite(record.gradients[0]).all()
    assert 0 < metrics["kl_clamped_fraction"] < 1
    assert 0 < metrics["kl"] < float("inf")
    assert torch.isfinite(torch.tensor(record.losses)).all()
    assert learner.state.counters["non_finite_steps"] == 0


def test_nothing_is_clamped_near_the_reference():
    policy = make_policy()
    spec = spec_of(beta=0.1)
    metrics = Learner(policy, spec, 10).step(make_groups(policy, spec))
    assert metrics["kl_clamped_fraction"] == 0
    assert metrics["kl"] == pytest.approx(0, abs=1e-6)
