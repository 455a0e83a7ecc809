"""What a run knows of itself, beside parameters: written into every checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hanse.errors import RunError
from hanse.recipe.model import EvaluationSpec
from hanse.runs.folder import read_json
from hanse.storage import write_json

_FILE = "ledger.json"


@dataclass
class Ledger:
    """`round` is the last complete one; `sizes` are those of the record files at that moment.

    `recipe` is what the run was begun or last continued with, `start_sha256` the digest of the policy's
    starting point.
    """

    round: int = 0
    seconds: float = 0.0
    seconds_warmup: float = 0.0
    bytes_up: int = 0
    bytes_down: int = 0
    initial: dict[str, Any] = field(default_factory=dict)
    best_round: int = 0
    best_accuracy: float | None = None
    unscored: float = 0
    warnings: list[str] = field(default_factory=list)
    stopped: str | None = None
    health: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)
    start_sha256: str | None = None

    def save(self, folder: Path) -> None:
        write_json(folder / _FILE, asdict(self))

    @classmethod
    def load(cls, folder: Path) -> Ledger:
        """Raises RunError where the file is missing or damaged."""
        path = folder / _FILE
        try:
            return cls(**read_json(path, "`hanse resume` goes on after the round before it."))
        except TypeError as error:
            raise RunError(f"{path} is damaged, or of another version of hanse: {error}.") from error

    def is_best(self, number: int, accuracy: float | None) -> bool:
        """Whether this validation accuracy is the best so far; if so, it is noted."""
        if accuracy is None or (self.best_accuracy is not None and accuracy <= self.best_accuracy):
            return False
        self.best_round, self.best_accuracy = number, accuracy
        return True

    def decide_stop(self, accuracy: float | None, spec: EvaluationSpec) -> None:
        """Note why the run should end now, if it should."""
        if accuracy is None:
            return
        if spec.stop_at is not None and accuracy >= spec.stop_at:
            self.stopped = f"validation accuracy {accuracy:.3f} reached evaluation.stop_at"
        stale = self.round - self.best_round
        if spec.patience is not None and stale >= spec.patience * spec.every:
            self.stopped = f"no better validation accuracy in {stale} rounds (evaluation.patience)"

    def to_summary(self, final: Mapping[str, Any]) -> dict[str, Any]:
        """The part of summary.json that comes from here."""
        return {
            "rounds": self.round,
            "seconds": self.seconds,
            "seconds_warmup": self.seconds_warmup,
            "evaluation": {"initial": self.initial, "final": dict(final)},
            "best": {"round": self.best_round, "validation_accuracy": self.best_accuracy},
            "bytes": {"up": self.bytes_up, "down": self.bytes_down},
            "warnings": self.warnings,
            "reward_errors": self.health.get("errors", {}),
            "stopped": self.stopped,
        }
