"""A run from its first round, or from its newest checkpoint, to its report."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from hanse.errors import QuorumError, RecipeError, RunError
from hanse.recipe.model import Recipe
from hanse.runs.building import Elsewhere, build_training
from hanse.runs.environment import environment
from hanse.runs.evaluating import Levels, examine, validate
from hanse.runs.finish import finish
from hanse.runs.folder import RunFolder
from hanse.runs.health import Health
from hanse.runs.ledger import Ledger
from hanse.runs.preflight import preflight
from hanse.runs.progress import Progress
from hanse.runs.start import ensure_start
from hanse.runs.track import Tracker, build_trackers
from hanse.runs.unchanged import check_unchanged
from hanse.runtime.base import Connect
from hanse.runtime.host import client_data
from hanse.runtime.state import save_tensors
from hanse.storage import new_file, sha256, write_json
from hanse.tasks.build import recipe_task
from hanse.tasks.partition import ClientData
from hanse.tasks.problem import Task


class Session:
    """Runs a recipe in a run folder. `run()` may be interrupted at any moment and called again.

    `connect` reaches clients that are not in this process.
    """

    def __init__(
        self, folder: RunFolder, recipe: Recipe, progress: Progress, connect: Connect | None = None
    ) -> None:
        self.folder, self.recipe, self.progress = folder, recipe, progress
        self._elsewhere = None if connect is None else Elsewhere(connect, folder.path, progress.note)
        self.ledger, self.health = Ledger(), Health(recipe.grpo)
        self.trackers: list[Tracker] = []
        self._clock = time.perf_counter()

    def run(self) -> dict[str, Any]:
        """Train to the end and return the summary."""
        try:
            return self._locked_run()
        except QuorumError as error:
            raise QuorumError(f"{error} Continue with: hanse resume {self.folder.path}") from error
        except (OSError, SafetensorError) as error:
            raise RunError(
                f"{self.folder.path} cannot be written or read: {error}. The last complete round is kept: "
                f"make room or mend it, then: hanse resume {self.folder.path}"
            ) from error

    def _locked_run(self) -> dict[str, Any]:
        with self.folder.locked(), ExitStack() as stack:
            self._open_ledger()
            self.trackers = build_trackers(self.recipe, self.folder)
            for tracker in self.trackers:
                stack.enter_context(closing(tracker))
            task = recipe_task(self.recipe)
            parts = client_data(self.recipe, task)
            self.progress.note("Preparing the policy …")
            start = self._start(task)
            names = [part.name for part in parts]
            training = build_training(
                self.recipe,
                start,
                names,
                task,
                elsewhere=self._elsewhere,
                accounts=self.folder.accounts_path,
            )
            self.training = stack.enter_context(closing(training))
            for policy in self.training.policies():
                preflight(self.recipe, policy, task, parts)
            self.training.start()
            return self._run(parts)

    def _open_ledger(self) -> None:
        """The ledger of the newest checkpoint that can be trusted, if there is one. Drops damaged ones."""
        warnings: list[str] = []
        newest = self.folder.newest_sound_round(warnings.append)
        if newest is not None:
            self.ledger = Ledger.load(newest)
            check_unchanged(self.folder, self.ledger.recipe, self.recipe)
            self.folder.drop_after(newest)
        for text in warnings:
            self.warn_of(text)
        self.ledger.recipe = self.recipe.model_dump(mode="json")

    def _start(self, task: Task) -> Path | None:
        start = ensure_start(self.recipe, task, self.folder, self.ledger.start_sha256)
        if self.folder.newest_round() is None:
            self.ledger.start_sha256 = None if start is None else sha256(start)
            self.ledger.seconds_warmup = self._lap()
        return start

    def _run(self, parts: list[ClientData]) -> dict[str, Any]:
        training = self.training
        column, private = self.recipe.evaluation.level_column, self.recipe.privacy.enabled
        self.levels = Levels.of(training.levels, parts, column, private=private)
        write_json(self.folder.path / "environment.json", environment())
        write_json(self.folder.path / "partition.json", {"rows": self.levels.partition_rows()})
        self.progress.started(self.recipe.name, self.recipe.rounds, training.names, self.levels.held_out)
        newest = self.folder.newest_round()
        if newest is None:
            self._begin()
        else:
            self._restore(newest)
        while self.ledger.round < self.recipe.rounds and self.ledger.stopped is None:
            self._round()
        self.progress.note("Evaluating on held-out problems …")
        models = training.models()
        final, records = examine(training, models, self.levels, self.recipe.evaluation)
        self.ledger.seconds += self._lap()
        return finish(self, training, models, self._summary(final), records)

    @property
    def _records(self) -> tuple[Path, ...]:
        return (self.folder.metrics_path, self.folder.completions_path, self.folder.exchange_path)

    def _begin(self) -> None:
        """The evaluation before training, and checkpoint 0."""
        for path in self._records:
            path.unlink(missing_ok=True)
        models = self.training.models()
        self.ledger.initial, records = examine(self.training, models, self.levels, self.recipe.evaluation)
        if self.ledger.initial["accuracy"] is None:
            raise RecipeError(
                "rewards",
                "not one completion of the evaluation before training could be scored"
                f" ({'; '.join(self.ledger.initial.get('errors', [])) or 'no reward function applied'}).",
                "Mend the reward function, or raise scoring.deadline_s.",
            )
        self.folder.append(self.folder.completions_path, [{"when": "before", **row} for row in records])
        row = {"kind": "round", "round": 0, **self._validate(0)}
        self.folder.append(self.folder.metrics_path, [row])
        self._checkpoint()
        self._show(row)

    def _round(self) -> None:
        number = self.ledger.round + 1
        done = self.training.round(number)
        self._tell_errors(done.errors)
        row = done.row
        if number % self.recipe.evaluation.every == 0 or number == self.recipe.rounds:
            row |= self._validate(number)
        self.ledger.round = number
        self.ledger.bytes_up += done.bytes_up
        self.ledger.bytes_down += done.bytes_down
        self.ledger.unscored += row.get("unscored", 0)
        self.ledger.decide_stop(row.get("evaluation/accuracy"), self.recipe.evaluation)
        if row.get("privacy/exhausted") and number < self.recipe.rounds:
            self.ledger.stopped = "every client has spent its privacy budget (privacy.epsilon)"
        self.folder.append(self.folder.metrics_path, [*done.steps, row])
        self.folder.append(self.folder.exchange_path, done.samples)
        self._warn(done.steps, done.refused)
        self._checkpoint()
        self._show(row)

    def _tell_errors(self, errors: Mapping[str, Mapping[str, int]]) -> None:
        """On the terminal; the report has them with the counts of the whole run."""
        for client, messages in errors.items():
            for message in self.health.count_errors(client, messages):
                self.progress.warning(message)

    def _warn(self, steps: list[dict[str, Any]], messages: list[str]) -> None:
        for message in messages:
            self.progress.warning(message)
        for step in steps:
            for message in self.health.observe(step["client"], step):
                self.warn_of(message)

    def warn_of(self, message: str) -> None:
        """On the terminal now, and in the report."""
        self.ledger.warnings.append(message)
        self.progress.warning(message)

    def _validate(self, number: int) -> dict[str, Any]:
        """Validation accuracy; the values of the best round so far are kept."""
        models = self.training.models()
        row = validate(self.training, models, self.levels, self.recipe.evaluation)
        if self.ledger.is_best(number, row["evaluation/accuracy"]) or number == 0:
            tensors = {f"{i:04d}": model.values for i, model in enumerate(models)}
            with new_file(self.folder.best_path) as temporary:
                save_tensors(temporary, tensors, {"round": number})
        return row

    def _show(self, row: Mapping[str, Any]) -> None:
        for tracker in self.trackers:
            tracker.log(row)
        self.progress.round_done({**row, "seconds": self.ledger.seconds})

    def _checkpoint(self) -> None:
        self.ledger.seconds += self._lap()
        self.ledger.health = self.health.to_state()
        self.ledger.sizes = {path.name: self.folder.size(path) for path in self._records}

        def fill(folder: Path) -> None:
            self.training.save(folder)
            self.ledger.save(folder)

        self.folder.save_round(self.ledger.round, fill)

    def _restore(self, newest: Path) -> None:
        self.training.load(newest)
        self.health = Health.from_state(self.recipe.grpo, self.ledger.health)
        for name, size in self.ledger.sizes.items():
            self.folder.cut(self.folder.path / name, size)
        self.folder.summary_path.unlink(missing_ok=True)  # of a run that ended and now goes on
        self.progress.note(f"Continuing after round {self.ledger.round}.")
        self._lap()

    def _lap(self) -> float:
        now = time.perf_counter()
        elapsed, self._clock = now - self._clock, now
        return elapsed

    def _summary(self, final: dict[str, Any]) -> dict[str, Any]:
        counters = {"unscored": self.ledger.unscored, **self.training.counters()}
        named = {"name": self.recipe.name, "mode": self.recipe.mode, "seed": self.recipe.seed}
        own = self.training.summary()
        return {**named, **self.ledger.to_summary(final), **own, "counters": counters}
