"""What a person sees while a study goes on: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TextIO

from hanse.runs.report.formats import known, number, printable
from hanse.runs.report.reading import part
from hanse.runs.study.jobs import Job

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


class StudyProgress(Protocol):
    """Events of a study. `stop` comes last, also where it fails."""

    def planned(self, totals: Mapping[str, int]) -> None:
        """How many runs each arm has, tuning included."""
        ...

    def note(self, text: str) -> None: ...

    def began(self, job: Job, note: str | None) -> None: ...

    def ended(self, job: Job) -> None:
        """Finished, now or in an earlier sitting, or failed."""
        ...

    def stop(self) -> None: ...


@dataclass
class Tally:
    """An arm's runs so far."""

    total: int
    done: int = 0
    failed: int = 0
    accuracies: list[float] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)

    @property
    def mean(self) -> float | None:
        return sum(self.accuracies) / len(self.accuracies) if self.accuracies else None


class SilentStudy:
    """Counts, and says nothing."""

    def __init__(self) -> None:
        self.tallies: dict[str, Tally] = {}

    def planned(self, totals: Mapping[str, int]) -> None:
        self.tallies = {arm: Tally(total) for arm, total in totals.items()}

    def note(self, text: str) -> None:
        pass

    def began(self, job: Job, note: str | None) -> None:
        self.tallies[job.arm].running.append(job)
        if note:
            self.note(note)

    def ended(self, job: Job) -> None:
        tally = self.tallies[job.arm]
        tally.running = [other for other in tally.running if other != job]
        if not job.finished():
            tally.failed += 1
            return
        tally.done += 1
        accuracy = _accuracy(job)
        if job.trial is None and accuracy is not None:
            tally.accuracies.append(accuracy)

    def stop(self) -> None:
        pass


class PlainStudy(SilentStudy):
    """One line an event."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def note(self, text: str) -> None:
        try:
            print(printable(text), file=self._stream, flush=True)
        except (OSError, ValueError):
            return

    def ended(self, job: Job) -> None:
        super().ended(job)
        tally = self.tallies[job.arm]
        count = f"{tally.done}/{tally.total} of the arm"
        if not job.finished():
            self.note(f"{job.title}: FAILED: {job.error()}")
            return
        accuracy = "" if job.trial is not None else f" accuracy {number(_accuracy(job))},"
        self.note(f"{job.title}:{accuracy} {count}, mean {number(tally.mean)}")


class LiveStudy(SilentStudy):
    """A table that stays in place."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        super().__init__()
        self._console = console
        self._live = Live(console=console, get_renderable=self._table, refresh_per_second=2)

    def planned(self, totals: Mapping[str, int]) -> None:
        super().planned(totals)
        if not self._live.is_started:
            self._live.start()

    def note(self, text: str) -> None:
        self._console.print(printable(text), highlight=False, markup=False)

    def ended(self, job: Job) -> None:
        super().ended(job)
        if not job.finished():
            self.note(f"{job.title}: FAILED: {job.error()}")

    def stop(self) -> None:
        self._live.stop()

    def _table(self) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for head in ("arm", "done", "failed", "mean so far", "running"):
            justify = "left" if head in ("arm", "running") else "right"
            table.add_column(head, justify=justify, header_style="dim")  # type: ignore[arg-type]
        for arm, tally in self.tallies.items():
            failed = Text(str(tally.failed or "·"), "red" if tally.failed else "dim")
            running = Text(_running(tally.running), "dim")
            table.add_row(Text(arm), f"{tally.done}/{tally.total}", failed, number(tally.mean), running)
        return table


def _running(jobs: Sequence[Job]) -> str:
    """Seeds and their rounds."""
    told = []
    for job in jobs:
        trial = "" if job.trial is None else f"trial {job.trial} "
        start = "" if job.start is None else f"/{job.start}"
        told.append(f"{trial}seed {job.seed}{start}: round {job.round() or 0}/{job.recipe.rounds}")
    return ", ".join(told)


def _accuracy(job: Job) -> float | None:
    return known(part(job.folder.summary() or {}, "evaluation", "final").get("accuracy"))


def build_study_progress(stream: TextIO) -> StudyProgress:
    """Live on a terminal that can move its cursor, plain lines elsewhere."""
    if not stream.isatty():
        return PlainStudy(stream)
    from rich.console import Console

    console = Console(file=stream)
    return PlainStudy(stream) if console.is_dumb_terminal or not console.is_terminal else LiveStudy(console)
