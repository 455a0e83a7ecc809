"""G4: a loss of 0.0 looks broken. On policy it is 0 by construction; the signal is shown beside it."""

from __future__ import annotations

import pytest

from grpo.toys import FixedScoring, make_policy, problems_of, spec_of
from hanse.grpo.learner import Learner
from hanse.grpo.step import grpo_step
from hanse.policy.sampler import Sampler, Sampling


@pytest.mark.parametrize("objective", ["grpo", "gspo"])
def test_the_on_policy_loss_is_zero_while_the_signal_is_not(objective: str):
    policy = make_policy()
    learner = Learner(policy, spec_of(objective=objective), 10)
    result = grpo_step(
        lambda n: (problems_of(), list(range(n))),
        Sampler(policy, Sampling(5)),
        FixedScoring(lambda _, ids: float(sum(ids) % 2)),
        learner,
    )
    assert abs(result.metrics["loss"]) < 1e-6
    assert result.metrics["policy_grad_signal"] > 0.1
    assert result.metrics["grad_norm"] > 0.01
