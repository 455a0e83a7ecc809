"""The seam between a run and its mode: who trains, round by round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from hanse.grpo.evaluation import EvaluationJob, LevelResult
from hanse.policy.export import save_policy
from hanse.policy.policy import Policy
from hanse.runs.models import Model
from hanse.runs.rows import Row
from hanse.tasks.problem import Problem, Split


@dataclass(frozen=True)
class RoundResult:
    """What a round comes to in the run folder: a row a step, one of the round, samples of what was
    exchanged. `refused`: in words, what was left out; `errors`: of reward functions, by who met them."""

    steps: list[Row]
    row: Row
    refused: list[str] = field(default_factory=list)
    errors: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    samples: Sequence[Mapping[str, Any]] = ()
    bytes_up: int = 0
    bytes_down: int = 0


class Training(Protocol):
    """All that train in a run, and what they hold."""

    names: list[str]

    def start(self) -> None:
        """Get ready: import reward functions."""
        ...

    def round(self, number: int) -> RoundResult:
        """Raises QuorumError where nothing usable came of it."""
        ...

    def models(self) -> list[Model]:
        """What is evaluated and saved: one model, or several by name."""
        ...

    def evaluate(self, model: Model, jobs: Sequence[EvaluationJob]) -> list[LevelResult]: ...

    def policies(self) -> list[Policy]:
        """All different ones that will train."""
        ...

    def policy(self, model: Model) -> Policy:
        """The model's policy with its values in place."""
        ...

    def export(self, model: Model, folder: Path, card: str) -> str:
        """Write a model as others load it, and return a hash over what was trained."""
        ...

    def levels(self, split: Split) -> dict[str, list[Problem]]: ...

    def save(self, folder: Path) -> None:
        """Write all states into a checkpoint that is being made."""
        ...

    def load(self, folder: Path) -> None: ...

    def counters(self) -> dict[str, int]: ...

    def summary(self) -> Row:
        """Further entries of summary.json."""
        ...

    def close(self) -> None: ...


def export_policy(policy: Policy, folder: Path, card: str) -> str:
    """Write a policy where plain transformers and peft load it from, and return its hash."""
    save_policy(policy, folder, card=card)
    return policy.sha256()
