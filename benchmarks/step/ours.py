"""Our side: `grpo_step` as `hanse train` runs it, with scoring, optimiser and metrics."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from hanse.grpo import learner as learner_module
from hanse.grpo.learner import Learner
from hanse.grpo.step import grpo_step
from hanse.policy.policy import Policy
from hanse.policy.sampler import Sampler, Sampling
from hanse.recipe.model import GrpoSpec, RewardSpec, ScoringSpec
from hanse.tasks.problem import Problem
from hanse.tasks.scoring.scorer import Scorer
from step.cases import Case

PHASES = ("sample", "score", "train")


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class Ours:
    """Runs steps on successive problems. The reward runs in process, as TRL's does."""

    def __init__(self, case: Case, policy: Policy, problems: Sequence[Problem]) -> None:
        policy.eos_ids = ()  # forced length
        self.case, self.problems, self._next = case, problems, 0
        spec = GrpoSpec(
            group_size=case.G, prompts_per_step=case.P, max_new_tokens=case.T, lr=case.lr, objective="grpo"
        )
        self.sampler = Sampler(policy, Sampling(case.T, rows=case.P * case.G))
        self.learner = Learner(policy, spec, total_steps=10**6)
        path = f"{Path(__file__).parent / 'cases.py'}:reward"
        self.scorer = Scorer([RewardSpec(path=path, trusted=True)], ScoringSpec())
        self.forget_phases()

    def forget_phases(self) -> None:
        self.phases: dict[str, list[float]] = {phase: [] for phase in PHASES}

    def median_phases(self) -> dict[str, float]:
        return {phase: statistics.median(seconds) for phase, seconds in self.phases.items()}

    def _draw(self, n: int) -> tuple[Sequence[Problem], Sequence[int]]:
        start = self._next
        self._next = (start + n) % (len(self.problems) - n)
        return self.problems[start : start + n], list(range(start, start + n))

    def run(self, steps: int) -> float:
        """Seconds a step."""
        synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            result = grpo_step(self._draw, self.sampler, self.scorer, self.learner)
            for phase in PHASES:
                self.phases[phase].append(result.metrics[f"time/{phase}"])
        synchronize()
        self._check(result.metrics)
        return (time.perf_counter() - start) / steps

    def run_without_skipping(self, steps: int) -> float:
        """The same, with groups trained on whose advantages are all 0."""
        kept, learner_module.without_idle_groups = learner_module.without_idle_groups, lambda batch: batch
        phases = self.phases
        self.forget_phases()
        try:
            return self.run(steps)
        finally:
            learner_module.without_idle_groups = kept
            self.phases = phases

    def _check(self, metrics: dict[str, Any]) -> None:
        assert metrics["completions/min_length"] == metrics["completions/max_length"] == self.case.T
        assert metrics["unscored"] == 0
        assert metrics["grad_norm"] > 0
