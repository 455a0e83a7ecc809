"""Small policies, groups and rewards that more than one test needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hanse.grpo.learner import Learner
from hanse.grpo.step import assign_advantages
from hanse.policy.logprobs import completion_logprobs
from hanse.policy.policy import Policy
from hanse.policy.rollout import Group
from hanse.policy.sampler import Sampler, Sampling
from hanse.policy.tiny import tiny_policy
from hanse.recipe.model import GrpoSpec, TinyPolicy
from hanse.tasks.problem import Problem
from hanse.tasks.scoring.scores import Scores
from hanse.tasks.vocabulary import Vocabulary

CHARACTERS = "0123456789+="
RAGGED = ("1+2=", "13+25=", "7=", "104+3=")


def make_policy(seed: int = 0, *, sharpness: float = 0.35, **shape: int) -> Policy:
    """A tiny policy whose weights are large enough for its distributions to be far from uniform."""
    sizes = {"hidden": 16, "layers": 2, "heads": 2, "intermediate": 32, "context": 64} | shape
    policy = tiny_policy(TinyPolicy(**sizes), Vocabulary(tuple(CHARACTERS), "characters"), seed)
    draws = torch.from_numpy(np.random.default_rng(seed).normal(0, sharpness, policy.parameters.numel))
    matrices = torch.cat([torch.full((p.numel(),), float(p.dim() > 1)) for p in _in_order(policy)])
    policy.parameters.load(torch.where(matrices > 0, draws, 1 + draws / 4).float())
    return policy


def _in_order(policy: Policy) -> list[Tensor]:
    return list(policy.parameters.views(policy.parameters.master).values())


def problems_of(prompts: Sequence[str] = RAGGED) -> list[Problem]:
    return [Problem(id=f"p{i}", prompt=prompt) for i, prompt in enumerate(prompts)]


def sample_groups(
    policy: Policy, prompts: Sequence[str] = RAGGED, G: int = 4, T: int = 5, **sampling: Any
) -> list[Group]:
    problems = problems_of(prompts)
    seeds = [100 + i for i in range(len(problems))]
    return Sampler(policy, Sampling(T, **sampling)).sample(problems, G, seeds)


def reward_by_tokens(groups: Sequence[Group]) -> None:
    """Deterministic rewards that differ within most groups."""
    for g in groups:
        g.rewards_G = torch.tensor([(sum(ids) % 5) / 4 for ids in g.token_ids_G()], dtype=torch.float64)


def make_groups(policy: Policy, spec: GrpoSpec, prompts: Sequence[str] = RAGGED) -> list[Group]:
    """Sampled and scored groups with advantages."""
    groups = sample_groups(
        policy, prompts, spec.group_size, spec.max_new_tokens, temperature=spec.temperature
    )
    reward_by_tokens(groups)
    assign_advantages(groups, spec)
    return groups


def written_group(
    policy: Policy, prompt: str, completions: Sequence[Sequence[int]], rewards: Sequence[float], T: int
) -> Group:
    """A group with given tokens; those that do not end in an end token count as truncated at T."""
    tokens = torch.full((len(completions), T), policy.pad_id)
    for row, ids in zip(tokens, completions, strict=True):
        row[: len(ids)] = torch.tensor(ids)
    prompt_ids = policy.encode(prompt)
    with torch.no_grad():
        logp = completion_logprobs(policy, [prompt_ids], tokens.unsqueeze(0), 1.0)[0]
    return Group(
        problem=Problem(id=prompt, prompt=prompt),
        prompt_ids=prompt_ids,
        tokens_GT=tokens,
        lengths_G=torch.tensor([len(ids) for ids in completions]),
        terminated_G=torch.tensor([ids[-1] in policy.eos_ids for ids in completions]),
        logp_GT=logp,
        rewards_G=torch.tensor(rewards, dtype=torch.float64),
    )


def spec_of(**changes: Any) -> GrpoSpec:
    base = {"group_size": 4, "prompts_per_step": 4, "max_new_tokens": 5, "lr": 1e-3, "max_grad_norm": 1e9}
    return GrpoSpec(**(base | changes))


class Recorder:
    """Keeps the gradient and the loss of each update of a learner."""

    def __init__(self, learner: Learner) -> None:
        self.gradients: list[Tensor] = []
        self.losses: list[float] = []
        self._learner = learner
        self._update, self._objective = learner._optimiser.update, learner._objective
        learner._optimiser.update = self._record_gradient  # type: ignore[method-assign]
        learner._objective = self._record_loss
        self._loss = 0.0

    def _record_loss(self, inputs: Any) -> Any:
        loss = self._objective(inputs)
        self._loss += float(loss.value.detach())
        return loss

    def _record_gradient(self, grad: Tensor, lr: float) -> None:
        self.gradients.append(grad.clone())
        self.losses.append(self._loss)
        self._loss = 0.0
        self._update(grad, lr)


def gradient_of(policy: Policy, spec: GrpoSpec, groups: Sequence[Group]) -> tuple[float, Tensor]:
    """Loss and flat gradient of the first update on `groups`; the policy's values are put back."""
    before = policy.parameters.master.clone()
    learner = Learner(policy, spec, total_steps=10)
    record = Recorder(learner)
    learner.step(groups)
    policy.parameters.load(before)
    return record.losses[0], record.gradients[0]


def relative(ours: Tensor, theirs: Tensor, floor: float = 1e-7) -> float:
    """||ours - theirs|| / max(||theirs||, floor)."""
    return float((ours - theirs).norm() / theirs.norm().clamp(min=floor))


class FixedScoring:
    """Scores by a function of token ids; None = unscored."""

    def __init__(self, function: Any) -> None:
        self.function, self.calls = function, 0

    def score(
        self,
        problems_N: Any,
        completions_N: Any,
        completion_ids_N: Sequence[list[int]] | None = None,
        *,
        group_size: int | None = None,
    ) -> Scores:
        assert completion_ids_N is not None
        self.calls += 1
        values = [self.function(p, ids) for p, ids in zip(problems_N, completion_ids_N, strict=True)]
        totals = np.array([np.nan if v is None else v for v in values], dtype=np.float64)
        scores = Scores(("fixed",), totals, totals[None].copy())
        missing = int(np.isnan(totals).sum())
        if missing:
            scores.failures["exception"] = missing
        return scores


def copy_of(policy: Policy, seed: int = 0, **shape: int) -> Policy:
    """A second policy with the same values."""
    other = make_policy(seed, **shape)
    other.parameters.load(policy.parameters.master)
    return replace(other)
