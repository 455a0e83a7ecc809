"""Local steps of a reward model on one client's pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hanse.errors import NonFiniteError
from hanse.grpo.learner import LearnerState
from hanse.grpo.optimiser import Moments, Optimiser
from hanse.recipe.model import GrpoSpec
from hanse.recipe.reward_model import RewardModelSpec
from hanse.reward_model.bradley_terry import accuracy, loss, margins
from hanse.reward_model.head import Ids, RewardModel
from hanse.tasks.problem import Problem

_MOST_NON_FINITE = 5
Draw = Callable[[int], tuple[Sequence[Problem], Sequence[int]]]
"""So many of a client's problems, and seeds that are not used here."""


@dataclass(frozen=True)
class Pair:
    """Encoded completions of one prompt."""

    preferred: Ids
    other: Ids


class PreferenceLearner:
    """Steps and margins of one reward model, at which the clients of a process take turns."""

    def __init__(self, model: RewardModel, spec: RewardModelSpec) -> None:
        self.model, self.spec = model, spec
        optimiser = GrpoSpec(lr=spec.lr, weight_decay=spec.weight_decay)
        self._optimiser = Optimiser(model.parameters.master, optimiser)
        self._encoded: dict[str, Pair] = {}

    def pairs(self, problems_N: Sequence[Problem]) -> list[Pair]:
        """Encoded once a problem."""
        for problem in problems_N:
            if problem.id not in self._encoded:
                labels = problem.metadata
                ids = (self.model.encode(problem.prompt, labels[name]) for name in ("chosen", "rejected"))
                self._encoded[problem.id] = Pair(*ids)
        return [self._encoded[problem.id] for problem in problems_N]

    def step(self, problems_N: Sequence[Problem], state: LearnerState) -> dict[str, float]:
        """One update on these pairs, which `state` counts. A gradient that is not finite is never applied.

        Raises NonFiniteError after five of them in a row.
        """
        parameters, pairs = self.model.parameters, self.pairs(problems_N)
        parameters.start_gradients()
        scores = self.model.scores([*(p.preferred for p in pairs), *(p.other for p in pairs)])
        margins_N = margins(*scores.chunk(2))
        value = loss(margins_N)
        value.backward()
        parameters.collect_gradients()
        metrics = {"loss": float(value.detach()), "reward/accuracy": accuracy(margins_N.detach())}
        return metrics | self._update(state)

    def _update(self, state: LearnerState) -> dict[str, float]:
        grad = self.model.parameters.grad
        assert grad is not None
        norm = torch.linalg.vector_norm(grad)
        state.step += 1
        if not bool(norm.isfinite()):
            state.counters["non_finite_steps"] += 1
            state.non_finite_streak += 1
            if state.non_finite_streak >= _MOST_NON_FINITE:
                raise NonFiniteError(
                    f"reward_model.lr: {_MOST_NON_FINITE} updates in a row had a non-finite gradient, none "
                    f"was applied. Lower it (now {self.spec.lr:g})."
                )
            return {}
        state.non_finite_streak = 0
        grad.mul_((self.spec.max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
        self._optimiser.moments = state.moments
        self._optimiser.update(grad, self.spec.lr)
        self.model.parameters.push()
        return {"grad_norm": float(norm)}

    def fit(self, draw: Draw, steps: int, state: LearnerState) -> list[dict[str, float]]:
        """So many steps on pairs drawn from a client's stream; metrics of each."""
        return [self.step(draw(self.spec.pairs_per_step)[0], state) for _ in range(steps)]

    def margins(self, problems_N: Sequence[Problem]) -> Tensor:
        """How much higher the model scores what was preferred, float32 on the CPU, shape (N,)."""
        pairs = self.pairs(problems_N)
        scores = self.model.score_all([*(p.preferred for p in pairs), *(p.other for p in pairs)])
        return margins(*scores.chunk(2))

    def fresh_state(self) -> LearnerState:
        """Of somebody who has done no step."""
        return LearnerState(Moments.zeros(self.model.parameters.master), counters=Counter())
