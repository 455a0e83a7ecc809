"""Which runs a study consists of, and which trial of a grid the reported ones use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hanse.recipe.study import ArmSpec, Study
from hanse.runs.folder import RunFolder
from hanse.runs.report.formats import known
from hanse.runs.study.jobs import Job
from hanse.runs.study.statistics import trial_score


@dataclass(frozen=True)
class Plan:
    """The runs of a study in the folder `root`."""

    study: Study
    root: Path

    def tuning(self, arm: ArmSpec) -> list[list[Job]]:
        """For each trial, a job a development seed, which decides the start too, as in a plain run."""
        return [
            [self._trial(arm, i, settings, seed) for seed in self.study.spec.development_seeds]
            for i, settings in enumerate(arm.trials())
        ]

    def _trial(self, arm: ArmSpec, number: int, settings: dict[str, Any], seed: int) -> Job:
        place = f"tuning/{arm.name}/trial-{number:02d}-seed-{seed}"
        recipe = self.study.recipe(arm, seed, None, settings)
        return Job(self.root, place, arm.name, seed, None, recipe, number)

    def reported(self, arm: ArmSpec) -> list[Job] | None:
        """The runs that count, with the best trial's settings; None while tuning has no best trial."""
        chosen = self.chosen(arm)
        return (
            None if chosen is None else [self._run(arm, seed, start, chosen) for seed, start in self.pairs()]
        )

    def pairs(self) -> list[tuple[int, int | None]]:
        return self.study.spec.pairs()

    def _run(self, arm: ArmSpec, seed: int, start: int | None, chosen: dict[str, Any]) -> Job:
        name = f"seed-{seed}" if start is None else f"seed-{seed}-start-{start}"
        recipe = self.study.recipe(arm, seed, start, chosen)
        return Job(self.root, f"runs/{arm.name}/{name}", arm.name, seed, start, recipe)

    def chosen(self, arm: ArmSpec) -> dict[str, Any] | None:
        """The best trial's settings; empty for an arm that does not tune; None while that is unknown."""
        if not arm.tune:
            return {}
        trials = self.trials(arm)
        best = best_trial(trials)
        return None if best is None else dict(trials[best]["settings"])

    def trials(self, arm: ArmSpec) -> list[dict[str, Any]]:
        """Each trial's settings, validation score by seed, their mean, and errors."""
        return [_score(settings, jobs) for settings, jobs in zip(arm.trials(), self.tuning(arm), strict=True)]


def _score(settings: dict[str, Any], jobs: Sequence[Job]) -> dict[str, Any]:
    scores = {str(job.seed): trial_score(curve(job.folder)) if job.finished() else None for job in jobs}
    numbers = [score for score in scores.values() if score is not None]
    complete = len(numbers) == len(jobs)
    errors = [f"seed {job.seed}: {error}" for job in jobs if (error := job.error())]
    return {
        "settings": settings,
        "scores": scores,
        "score": math.fsum(numbers) / len(numbers) if complete else None,
        "errors": errors,
        "ended": all(job.finished() or job.error() for job in jobs),
    }


def best_trial(trials: Sequence[dict[str, Any]]) -> int | None:
    """The highest score, the earlier of equals; None while a trial is still to be run, or all have failed."""
    scored = [i for i, trial in enumerate(trials) if trial["score"] is not None]
    if not scored or not all(trial["ended"] for trial in trials):
        return None
    return max(scored, key=lambda i: (trials[i]["score"], -i))


def curve(folder: RunFolder) -> list[tuple[int, float]]:
    """(round, validation accuracy), from the accuracy before training on."""
    rows = folder.metrics("round")
    found = ((row["round"], known(row.get("evaluation/accuracy"))) for row in rows)
    return [(number, accuracy) for number, accuracy in found if accuracy is not None]
