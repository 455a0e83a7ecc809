"""Our side of the comparison, on the same groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from grpo.toys import RAGGED, make_policy, relative, reward_by_tokens, sample_groups
from hanse.grpo.learner import Learner
from hanse.grpo.step import assign_advantages, charged_rewards
from hanse.policy.policy import Policy
from hanse.policy.rollout import Group
from hanse.recipe.model import GrpoSpec

TOLERANCE = 1e-5
FLOOR = 1e-6
"""Below this norm a tensor's gradient is compared absolutely."""
T = 6


def make_batch(prompts: Sequence[str] = RAGGED, **sampling: float) -> tuple[Policy, list[Group]]:
    """Ragged prompts, completions that end early and completions that are cut, varied rewards."""
    policy = make_policy(3, sharpness=0.25)
    groups = sample_groups(policy, prompts, G=4, T=T, **sampling)
    reward_by_tokens(groups)
    ended = torch.cat([g.terminated_G for g in groups])
    assert bool(ended.any()) and not bool(ended.all())
    return policy, groups


def make_reference(policy: Policy) -> Tensor:
    """Values near the policy's, so that the KL is not 0 before the first update."""
    noise = torch.randn(policy.parameters.numel, generator=torch.Generator().manual_seed(1))
    return policy.parameters.master + 0.03 * noise


def our_spec(objective: str, **changes: object) -> GrpoSpec:
    base = {
        "objective": objective,
        "group_size": 4,
        "prompts_per_step": 4,
        "max_new_tokens": T,
        "lr": 5e-3,
        "max_grad_norm": 1e9,
        "micro_batch": 8,
    }
    return GrpoSpec(**(base | changes))


class Ours:
    """One step of our learner with each update's loss, gradient and parameters kept."""

    def __init__(
        self, policy: Policy, groups: Sequence[Group], spec: GrpoSpec, reference: Tensor | None = None
    ) -> None:
        self.losses: list[float] = []
        self.gradients: list[dict[str, Tensor]] = []
        self.parameters: list[dict[str, Tensor]] = []
        self._policy, self._loss = policy, 0.0
        groups = [replace(g) for g in groups]
        learner = Learner(policy, spec, 10)
        if spec.beta > 0:
            policy._reference = reference
        self._objective, self._apply = learner._objective, learner._optimiser.update
        learner._objective = self._record_loss
        learner._optimiser.update = self._record  # type: ignore[method-assign]
        charged = charged_rewards(groups, learner) if spec.objective == "rloo" and spec.beta > 0 else None
        assign_advantages(groups, spec, charged)
        self.advantages = torch.cat([g.advantages_G for g in groups if g.advantages_G is not None])
        self.metrics = learner.step(groups)

    def _record_loss(self, inputs):
        loss = self._objective(inputs)
        self._loss += float(loss.value.detach())
        return loss

    def _record(self, grad: Tensor, lr: float) -> None:
        views = self._policy.parameters.views
        self.gradients.append({n: g.clone() for n, g in views(grad).items()})
        self._apply(grad, lr)
        self.parameters.append({n: p.clone() for n, p in views(self._policy.parameters.master).items()})
        self.losses.append(self._loss)
        self._loss = 0.0


def assert_same(ours: Ours, theirs, *, parameters: bool = True) -> None:
    """Losses, every tensor's gradient, advantages and parameters agree to 1e-5 relative."""
    assert len(ours.losses) == len(theirs.losses) == len(theirs.gradients)
    torch.testing.assert_close(ours.advantages.float(), theirs.advantages, rtol=1e-5, atol=1e-6)
    for i, loss in enumerate(theirs.losses):
        assert ours.losses[i] == pytest.approx(loss, rel=TOLERANCE, abs=1e-6)
        assert set(ours.gradients[i]) == set(theirs.gradients[i])
        assert (
            max(float(g.norm()) for g in theirs.gradients[i].values()) > 1e-3
        )  # there is something to compare
        for name, gradient in theirs.gradients[i].items():
            assert relative(ours.gradients[i][name], gradient, FLOOR) < TOLERANCE, (i, name)
        if parameters:
            for name, values in theirs.parameters[i].items():
                assert relative(ours.parameters[i][name], values, FLOOR) < TOLERANCE, (i, name)
