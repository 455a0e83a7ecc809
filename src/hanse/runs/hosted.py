"""What a host and a runtime answer by themselves, in every mode with one policy in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hanse.grpo.evaluation import EvaluationJob, LevelResult
from hanse.policy.policy import Policy
from hanse.runs.models import Model
from hanse.runs.training import export_policy
from hanse.runtime.base import Runtime
from hanse.runtime.host import Host
from hanse.tasks.problem import Problem, Split


class Hosted:
    """A part of `Training`: `host` has the policy, into which a model is loaded; `runtime` evaluates."""

    host: Host
    runtime: Runtime

    def evaluate(self, model: Model, jobs: Sequence[EvaluationJob]) -> list[LevelResult]:
        return self.runtime.evaluate(model.values, jobs)

    def policies(self) -> list[Policy]:
        return [self.host.policy]

    def policy(self, model: Model) -> Policy:
        self.host.policy.load(model.values)
        return self.host.policy

    def export(self, model: Model, folder: Path, card: str) -> str:
        return export_policy(self.policy(model), folder, card)

    def levels(self, split: Split) -> dict[str, list[Problem]]:
        return self.host.levels(split)
