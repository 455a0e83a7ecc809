"""A study from its file to its folder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hanse.errors import RunError
from hanse.recipe.study import ArmSpec, Study
from hanse.recipe.study_checks import known_arms
from hanse.runs.folder import RunFolder
from hanse.runs.study.document import study_document
from hanse.runs.study.jobs import Job
from hanse.runs.study.page import write_page
from hanse.runs.study.plan import Plan
from hanse.runs.study.processes import run_all
from hanse.runs.study.progress import SilentStudy, StudyProgress
from hanse.storage import write_json, write_text


def run_study(
    study: Study,
    *,
    out: Path | None = None,
    only: Sequence[str] = (),
    command: str = "",
    progress: StudyProgress | None = None,
) -> dict[str, Any]:
    """Bring a study to its end in `out/<name>` (default: `runs`), and return what study.json says.

    What is finished is kept, what was begun is resumed. A run that fails is recorded in its arm's `failed`.
    With `only`, other arms are compared as far as their runs exist.

    Raises RecipeError for an unknown arm in `only`, RunError where the folder cannot be written;
    KeyboardInterrupt leaves a study that goes on when it is run again.
    """
    known_arms("--only", only, [arm.name for arm in study.spec.arms])
    root = (out or Path("runs")) / study.spec.name
    shown = progress or SilentStudy()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with RunFolder(root).locked():
            write_text(root / "study.toml", study.text)
            arms = [arm for arm in study.spec.arms if not only or arm.name in only]
            return _Sitting(Plan(study, root), arms, command, shown).run()
    except OSError as error:
        raise RunError(f"{root} cannot be written or read: {error}. Choose another --out.") from error
    finally:
        shown.stop()


class _Sitting:
    def __init__(self, plan: Plan, arms: list[ArmSpec], command: str, progress: StudyProgress) -> None:
        self.plan, self.arms, self.command, self.progress = plan, arms, command, progress
        self._due = 0.0

    def run(self) -> dict[str, Any]:
        spec = self.plan.study.spec
        trials = {arm.name: [job for jobs in self.plan.tuning(arm) for job in jobs] for arm in self.arms}
        reported = len(spec.pairs())
        self.progress.planned({name: len(jobs) + reported for name, jobs in trials.items()})
        run_all([job for jobs in trials.values() for job in jobs], spec.workers, self.progress)
        self.write()
        run_all(self._by_seed(), spec.workers, self.progress, self._refresh)
        return self.write()

    def _by_seed(self) -> list[Job]:
        """All arms of one seed before the next, so that a study half done compares like with like."""
        columns = []
        for arm in self.arms:
            jobs = self.plan.reported(arm)
            if jobs is None:
                self.progress.note(f"{arm.name}: no trial of its tuning succeeded, so it is not run.")
            else:
                columns.append(jobs)
        return [job for row in zip(*columns, strict=True) for job in row]

    def _refresh(self) -> None:
        """Bring study.json and the page up to date, but spend no more than a twentieth of the time on it."""
        began = time.monotonic()
        if began >= self._due:
            self.write()
            self._due = time.monotonic() + 20 * (time.monotonic() - began)

    def write(self) -> dict[str, Any]:
        document = study_document(self.plan, self.command)
        write_json(self.plan.root / "study.json", document)
        write_page(self.plan.root)
        return document
