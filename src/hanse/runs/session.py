"""A run from its first round, or from its newest checkpoint, to its report."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hanse.grpo.step import mean_metrics
from hanse.recipe.model import Recipe
from hanse.runs.cohorts import Cohort, build_cohorts, close_rounds, load_cohorts, open_rounds, save_cohorts
from hanse.runs.environment import environment
from hanse.runs.evaluating import Levels, examine, validate
from hanse.runs.files import write_json
from hanse.runs.finish import finish
from hanse.runs.folder import RunFolder
from hanse.runs.health import Health
from hanse.runs.preflight import preflight
from hanse.runs.progress import Progress
from hanse.runs.start import ensure_start
from hanse.runtime.base import Answer, Runtime
from hanse.runtime.host import Host, client_data
from hanse.runtime.local import InTurn
from hanse.runtime.pool import ProcessPool
from hanse.runtime.state import save_tensors
from hanse.tasks.build import build_task


@dataclass
class Ledger:
    """What a run knows of itself, beside parameters: written into every checkpoint."""

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


class Session:
    """Runs a recipe in a run folder. `run()` may be interrupted at any moment and called again."""

    def __init__(self, folder: RunFolder, recipe: Recipe, progress: Progress) -> None:
        self.folder, self.recipe, self.progress = folder, recipe, progress
        self.ledger = Ledger()
        self.health = Health(recipe.grpo)
        self._clock = time.perf_counter()

    def run(self) -> dict[str, Any]:
        """Train to the end and return the summary."""
        with self.folder.locked():
            self.task = build_task(self.recipe.task)
            self.parts = client_data(self.recipe, self.task)
            self.names = [part.name for part in self.parts]
            self.progress.note("Preparing the policy …")
            start = ensure_start(self.recipe, self.task, self.folder)
            self.ledger.seconds_warmup = self._lap()
            host, runtime = self._build(start)
            with closing(host), closing(runtime):
                return self._run(host, runtime)

    def _build(self, start: Path | None) -> tuple[Host, Runtime]:
        """The host of this process, and the runtime: this very host, or a pool of others beside it."""
        ids = list(range(len(self.parts)))
        if self.recipe.runtime.workers == 1 or len(ids) == 1:
            host = Host(self.recipe, start, ids)
            return host, InTurn(host)
        pool = ProcessPool(self.recipe, start, len(ids))
        try:
            host = Host(self.recipe, start, [])
            pool.wait_ready()
        except BaseException:
            pool.close()
            raise
        return host, pool

    def _run(self, host: Host, runtime: Runtime) -> dict[str, Any]:
        preflight(self.recipe, host.policy, self.task, self.parts)
        cohorts = build_cohorts(self.recipe, self.names, host.initial)
        column = self.recipe.evaluation.level_column
        self.levels = Levels.of(host.levels, self.parts, column)
        write_json(self.folder.path / "environment.json", environment())
        write_json(self.folder.path / "partition.json", {"rows": self._partition_rows()})
        self.progress.started(self.recipe.name, self.recipe.rounds, self.names, self.levels.held_out)
        newest = self.folder.newest_round()
        if newest is None:
            self._begin(runtime, cohorts)
        else:
            self._restore(newest, runtime, cohorts)
        while self.ledger.round < self.recipe.rounds and self.ledger.stopped is None:
            self._round(runtime, cohorts)
        self.progress.note("Evaluating on held-out problems …")
        final, records = examine(runtime, cohorts, self.levels, self.recipe.evaluation)
        self.ledger.seconds += self._lap()
        summary = self._summary(final, runtime, cohorts)
        return finish(self, host, cohorts, summary, records)

    def _partition_rows(self) -> list[dict[str, Any]]:
        return [
            {"client": name, "problems": sum(counts.values()), **counts}
            for name, counts in self.levels.clients.items()
        ]

    def _begin(self, runtime: Runtime, cohorts: list[Cohort]) -> None:
        """The evaluation before training, and checkpoint 0."""
        for path in (self.folder.metrics_path, self.folder.completions_path):
            path.unlink(missing_ok=True)
        spec = self.recipe.evaluation
        self.ledger.initial, records = examine(runtime, cohorts, self.levels, spec)
        rows: list[Mapping[str, Any]] = [{"when": "before", **row} for row in records]
        self.folder.append(self.folder.completions_path, rows)
        row = {"kind": "round", "round": 0, **validate(runtime, cohorts, self.levels, spec)}
        self._note_best(row, cohorts)
        self.folder.append(self.folder.metrics_path, [row])
        self.ledger.seconds += self._lap()
        self._checkpoint(runtime, cohorts)
        self.progress.round_done(row)

    def _round(self, runtime: Runtime, cohorts: list[Cohort]) -> None:
        number = self.ledger.round + 1
        answers = runtime.train(open_rounds(cohorts))
        records = close_rounds(cohorts, answers)
        steps = self._step_rows(number, answers)
        local = [metrics for _, rows in answers.values() for metrics in rows]
        row: dict[str, Any] = {"kind": "round", "round": number, **mean_metrics(local)}
        for record in records:
            self.ledger.bytes_up += record.bytes_up
            self.ledger.bytes_down += record.bytes_down
        row |= self._client_columns(answers, records)
        row |= {"comm/bytes_up": sum(r.bytes_up for r in records)}
        row |= {"comm/bytes_down": sum(r.bytes_down for r in records)}
        if number % self.recipe.evaluation.every == 0 or number == self.recipe.rounds:
            row |= validate(runtime, cohorts, self.levels, self.recipe.evaluation)
            self._note_best(row, cohorts, number)
        self.ledger.round = number
        self.ledger.unscored += row.get("unscored", 0)
        self._decide_stop(row)
        self.folder.append(self.folder.metrics_path, [*steps, row])
        self.ledger.seconds += self._lap()
        self._checkpoint(runtime, cohorts)
        self.progress.round_done({**row, "seconds": self.ledger.seconds})

    def _step_rows(self, number: int, answers: Mapping[int, Answer]) -> list[Mapping[str, Any]]:
        rows: list[Mapping[str, Any]] = []
        for client, (_, metrics) in answers.items():
            for i, values in enumerate(metrics):
                rows.append(
                    {"kind": "step", "round": number, "step": i, "client": self.names[client], **values}
                )
                for message in self.health.observe(self.names[client], values):
                    self.ledger.warnings.append(message)
                    self.progress.warning(message)
        return rows

    def _client_columns(self, answers: Mapping[int, Answer], records: Sequence[Any]) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        for record in records:
            for screened in record.screened:
                prefix = f"clients/{self.names[screened.client]}"
                if screened.upload is None:
                    columns[f"{prefix}/refused"] = screened.reason
                    self.progress.warning(f"{self.names[screened.client]}: upload refused: {screened.reason}")
                    continue
                signal = screened.upload.signal
                columns |= {
                    f"{prefix}/reward": signal.reward_mean,
                    f"{prefix}/reward_std": signal.reward_std,
                    f"{prefix}/weight": record.weights[screened.client],
                    f"{prefix}/update_norm": record.norms[screened.client],
                }
        return columns

    def _note_best(self, row: Mapping[str, Any], cohorts: list[Cohort], number: int = 0) -> None:
        accuracy = row["evaluation/accuracy"]
        best = self.ledger.best_accuracy
        if accuracy is None or (best is not None and accuracy <= best):
            return
        self.ledger.best_round, self.ledger.best_accuracy = number, accuracy
        tensors = {f"{i:04d}": cohort.server.values() for i, cohort in enumerate(cohorts)}
        temporary = self.folder.path / ".best.tmp"
        save_tensors(temporary, tensors, {"round": number, "accuracy": accuracy})
        temporary.replace(self.folder.path / "best.safetensors")

    def _decide_stop(self, row: Mapping[str, Any]) -> None:
        spec, accuracy = self.recipe.evaluation, row.get("evaluation/accuracy")
        if accuracy is None:
            return
        if spec.stop_at is not None and accuracy >= spec.stop_at:
            self.ledger.stopped = f"validation accuracy {accuracy:.3f} reached evaluation.stop_at"
        stale = self.ledger.round - self.ledger.best_round
        if spec.patience is not None and stale >= spec.patience * spec.every:
            self.ledger.stopped = f"no better validation accuracy in {stale} rounds (evaluation.patience)"

    # --- checkpoints ----------------------------------------------------------------------------------

    def _checkpoint(self, runtime: Runtime, cohorts: list[Cohort]) -> None:
        self.ledger.health = self.health.to_state()
        self.ledger.sizes = {
            path.name: self.folder.size(path)
            for path in (self.folder.metrics_path, self.folder.completions_path)
        }

        def fill(folder: Path) -> None:
            save_cohorts(folder, cohorts)
            runtime.save(folder)
            write_json(folder / "ledger.json", asdict(self.ledger))

        self.folder.save_round(self.ledger.round, fill)

    def _restore(self, newest: Path, runtime: Runtime, cohorts: list[Cohort]) -> None:
        load_cohorts(newest, cohorts)
        runtime.load(newest)
        self.ledger = Ledger(**json.loads((newest / "ledger.json").read_text(encoding="utf-8")))
        self.health = Health.from_state(self.recipe.grpo, self.ledger.health)
        for name, size in self.ledger.sizes.items():
            self.folder.cut(self.folder.path / name, size)
        self.progress.note(f"Continuing after round {self.ledger.round}.")
        self._lap()

    def _lap(self) -> float:
        now = time.perf_counter()
        elapsed, self._clock = now - self._clock, now
        return elapsed

    def _summary(self, final: dict[str, Any], runtime: Runtime, cohorts: list[Cohort]) -> dict[str, Any]:
        ledger = self.ledger
        refused = sum(sum(cohort.server.state.ledger.values()) for cohort in cohorts)
        return {
            "name": self.recipe.name,
            "mode": self.recipe.mode,
            "seed": self.recipe.seed,
            "rounds": ledger.round,
            "seconds": ledger.seconds,
            "seconds_warmup": ledger.seconds_warmup,
            "evaluation": {"initial": ledger.initial, "final": final},
            "best": {"round": ledger.best_round, "validation_accuracy": ledger.best_accuracy},
            "bytes": {"up": ledger.bytes_up, "down": ledger.bytes_down},
            "counters": {"unscored": ledger.unscored, "refused_uploads": refused, **runtime.counters()},
            "warnings": ledger.warnings,
            "stopped": ledger.stopped,
        }
