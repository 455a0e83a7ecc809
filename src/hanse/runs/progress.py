"""What a person sees while a run goes on: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import atexit
import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from hanse.runs.columns import by_level, cell, fitting, parties, seconds, who
from hanse.runs.report.formats import known, number, plural, printable, size
from hanse.runs.report.outcome import HEADS, outcome, remarks

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

Row = Mapping[str, Any]

_KEPT_ROUNDS = 15
_LINES_AROUND = 7  # title, heads (a swarm's have two lines), rule, trend, status, and one to spare
_SPARK_LINE = 40
_SPARKS = "▁▂▃▄▅▆▇█"


class Progress(Protocol):
    """Events of a run, in order. `stop` comes last, also where a run fails, and may come twice."""

    def started(self, name: str, rounds: int, clients: Sequence[str], levels: Sequence[str]) -> None: ...

    def note(self, text: str) -> None:
        """What is happening now."""
        ...

    def warning(self, text: str) -> None: ...

    def round_done(self, row: Row) -> None:
        """One round row of metrics.jsonl, with `seconds` so far."""
        ...

    def finished(self, summary: Row, folder: Path) -> None: ...

    def stop(self) -> None: ...


class SilentProgress:
    """Says nothing."""

    def started(self, name: str, rounds: int, clients: Sequence[str], levels: Sequence[str]) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def warning(self, text: str) -> None:
        pass

    def round_done(self, row: Row) -> None:
        pass

    def finished(self, summary: Row, folder: Path) -> None:
        pass

    def stop(self) -> None:
        pass


class PlainProgress(SilentProgress):
    """One line an event, for logs. A reader that has gone away doesn't end the run."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._rounds = 0

    def _say(self, text: str) -> None:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        try:
            print(text.encode(encoding, "replace").decode(encoding), file=self._stream, flush=True)
        except (OSError, ValueError):
            return

    def started(self, name: str, rounds: int, clients: Sequence[str], levels: Sequence[str]) -> None:
        self._rounds = rounds
        self._say(printable(f"{name}: {plural(rounds, 'round')}, {who(clients)}"))

    def note(self, text: str) -> None:
        self._say(printable(text))

    def warning(self, text: str) -> None:
        self._say(printable(f"warning: {text}"))

    def round_done(self, row: Row) -> None:
        parts = [f"round {row.get('round')}/{self._rounds}"]
        named = {"reward": row.get("reward"), "attack success": row.get("swarm/attack_success")}
        named |= {
            "honest rejects": row.get("swarm/honest_rejects"),
            "accuracy": row.get("evaluation/accuracy"),
        }
        named |= {f"level {name}": value for name, value in by_level(row).items()}
        parts += [f"{name} {number(value)}" for name, value in named.items() if value is not None]
        up, down = row.get("comm/bytes_up"), row.get("comm/bytes_down")
        parts += [f"up {size(up)}, down {size(down)}"] if up or down else []
        parts += [f"{seconds(row.get('seconds'))} s"] if row.get("seconds") is not None else []
        self._say(printable("  ".join(parts)))

    def finished(self, summary: Row, folder: Path) -> None:
        rows = [HEADS, *outcome(summary)]
        width = max(len(row[0]) for row in rows)
        for label, *cells in rows:
            self._say(printable(label.ljust(width) + "".join(cell.rjust(9) for cell in cells)))
        for line in remarks(summary, folder):
            self._say(printable(line))


class LiveProgress(SilentProgress):
    """A table that stays in place; below it the trend, what is going on, and the time left."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._console = console
        self._title, self._rounds, self._levels = "", 0, list[str]()
        self._rows: tuple[Row, ...] = ()
        self._accuracies: tuple[float, ...] = ()
        self._ends: tuple[float, ...] = ()
        self._note, self._since = "", time.monotonic()
        redirect = sys.stdout.isatty()  # a stdout that goes to a file shall still get there
        self._live = Live(
            console=console, get_renderable=self._view, refresh_per_second=2, redirect_stdout=redirect
        )

    def started(self, name: str, rounds: int, clients: Sequence[str], levels: Sequence[str]) -> None:
        self._title = printable(f"{name}: {plural(rounds, 'round')}, {parties(clients)}")
        self._rounds, self._levels = rounds, list(levels)
        self.note("Evaluating before the first round …")

    def note(self, text: str) -> None:
        self._note, self._since = printable(text), time.monotonic()
        if not self._live.is_started:
            atexit.register(self.stop)
            self._live.start()
        self._live.refresh()

    def warning(self, text: str) -> None:
        self._console.print(printable(f"warning: {text}"), style="yellow", highlight=False, markup=False)

    def round_done(self, row: Row) -> None:
        accuracy = known(row.get("evaluation/accuracy"))
        self._accuracies += () if accuracy is None else (accuracy,)
        self._rows = (*self._rows, row)[-_KEPT_ROUNDS:]
        self._note, self._since = "", time.monotonic()
        self._ends = (*self._ends, self._since)[-6:]
        self._live.refresh()

    def finished(self, summary: Row, folder: Path) -> None:
        self.stop()
        self._console.print("", outcome_table(summary), "")
        for line in remarks(summary, folder):
            self._console.print(printable(line), highlight=False, markup=False, soft_wrap=True)

    def stop(self) -> None:
        atexit.unregister(self.stop)
        self._since = math.inf
        self._live.stop()

    def _view(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        room = max(1, self._console.height - _LINES_AROUND)
        table = [self._table(self._rows[-room:])] if self._rows else []
        title, *below = (
            [Text(line, style, no_wrap=True, overflow="ellipsis")] if line else []
            for line, style in ((self._title, "bold"), (self._trend(), "dim"), (self._status(), "dim"))
        )
        return Group(*title, *table, *below[0], *below[1])

    def _table(self, rows: Sequence[Row]) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        exchanged = any(row.get("comm/bytes_up") for row in rows)
        swarm = any("swarm/honest_reward" in row for row in rows)
        columns, gap = fitting(self._levels, exchanged, self._console.width, swarm)
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0))
        for key, head in columns:
            style = "bold" if key == "evaluation/accuracy" else ""
            table.add_column(Text(head), justify="right", no_wrap=True, header_style="dim", style=style)
        for row in rows:
            table.add_row(*(cell(key, row.get(key)) for key, _ in columns))
        return table

    def _trend(self) -> str:
        """Validation accuracy so far, as a small curve."""
        every, count = self._accuracies, min(len(self._accuracies), _SPARK_LINE)
        if count < 2 or self._console.options.ascii_only:
            return ""
        found = [every[round(i * (len(every) - 1) / (count - 1))] for i in range(count)]
        top = max(1.0, *found)
        curve = "".join(_SPARKS[max(0, min(7, int(8 * value / top)))] for value in found)
        return f"accuracy {number(found[0])} {curve} {number(found[-1])}"

    def _status(self) -> str:
        """What is going on and for how long; nothing once the run has stopped."""
        elapsed = time.monotonic() - self._since
        done = int(self._rows[-1].get("round") or 0) if self._rows else 0
        if elapsed < 0 or (done >= self._rounds and not self._note):
            return ""
        text = self._note or f"round {done + 1} of {self._rounds}:"
        text += f" {span(elapsed)}"
        if self._note or len(self._ends) < 2:
            return text
        each = (self._ends[-1] - self._ends[0]) / (len(self._ends) - 1)
        return f"{text}, about {span(max(0.0, (self._rounds - done) * each - elapsed))} left"


def build_progress(stream: TextIO) -> LiveProgress | PlainProgress:
    """Live on a terminal that can move its cursor, plain lines elsewhere."""
    if not stream.isatty():
        return PlainProgress(stream)
    from rich.console import Console

    console = Console(file=stream)
    if not console.is_terminal or console.is_dumb_terminal:
        return PlainProgress(stream)
    return LiveProgress(console)


def outcome_table(summary: Row) -> Table:
    """Before and after on held-out problems, for a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for head in HEADS:
        table.add_column(head, justify="left" if head == HEADS[0] else "right", header_style="dim")
    for label, before, after, change in outcome(summary):
        style = "green" if change.startswith("+") else "red" if change.startswith("-") else ""
        table.add_row(Text(label), before, Text(after, "bold"), Text(change, style))
    return table


def span(value: float) -> str:
    """Seconds as a person says them."""
    if value < 90:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 5400 else f"{value / 3600:.1f} h"
