"""What a person sees while a run goes on: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_KEPT_ROUNDS = 15
_OTHER_COLUMNS = 42


class Progress(Protocol):
    """Events of a run, in order."""

    def started(self, name: str, rounds: int, clients: Sequence[str], levels: Sequence[str]) -> None: ...

    def note(self, text: str) -> None:
        """What is happening now."""
        ...

    def warning(self, text: str) -> None: ...

    def round_done(self, row: Mapping[str, Any]) -> None:
        """One round row of metrics.jsonl, with `seconds` so far."""
        ...

    def finished(self, summary: Mapping[str, Any], folder: Path) -> None: ...


class SilentProgress:
    """Says nothing."""

    def started(self, name: str, rounds: int, clients: Sequence[str], levels: Sequence[str]) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def warning(self, text: str) -> None:
        pass

    def round_done(self, row: Mapping[str, Any]) -> None:
        pass

    def finished(self, summary: Mapping[str, Any], folder: Path) -> None:
        pass


class PlainProgress(SilentProgress):
    """One line an event, for logs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._rounds = 0

    def _say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def started(self, name: str, rounds: int, clients: Sequence[str], levels: Sequence[str]) -> None:
        self._rounds = rounds
        self._say(f"{name}: {rounds} rounds, clients: {', '.join(clients)}")

    def note(self, text: str) -> None:
        self._say(text)

    def warning(self, text: str) -> None:
        self._say(f"warning: {text}")

    def round_done(self, row: Mapping[str, Any]) -> None:
        parts = [f"round {row['round']}/{self._rounds}", f"reward {number(row.get('reward'))}"]
        parts.append(f"accuracy {number(row.get('evaluation/accuracy'))}")
        parts += [f"level {name} {number(value)}" for name, value in by_level(row).items()]
        parts.append(f"up {size(row.get('comm/bytes_up'))}, down {size(row.get('comm/bytes_down'))}")
        self._say("  ".join(parts))

    def finished(self, summary: Mapping[str, Any], folder: Path) -> None:
        for line in outcome(summary):
            self._say(line)
        self._say(f"Report: {folder / 'report.html'}")


class LiveProgress(SilentProgress):
    """A table that grows in place."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._rows: deque[Mapping[str, Any]] = deque(maxlen=_KEPT_ROUNDS)
        self._title, self._levels, self._last = "", list[str](), dict[str, float]()

    def started(self, name: str, rounds: int, clients: Sequence[str], levels: Sequence[str]) -> None:
        many = f"{len(clients)} clients" if len(clients) > 1 else "1 learner"
        self._title, self._levels = f"{name}: {many}, {rounds} rounds", list(levels)
        self._live.start()

    def note(self, text: str) -> None:
        self._console.print(text, style="dim", highlight=False, markup=False)

    def warning(self, text: str) -> None:
        self._console.print(f"warning: {text}", style="yellow", highlight=False, markup=False)

    def round_done(self, row: Mapping[str, Any]) -> None:
        self._rows.append(row)
        self._live.update(self._table(), refresh=True)

    def finished(self, summary: Mapping[str, Any], folder: Path) -> None:
        self._live.stop()
        for line in outcome(summary):
            self._console.print(line, highlight=False, markup=False)
        self._console.print(
            f"Report: {folder / 'report.html'}", highlight=False, markup=False, soft_wrap=True
        )

    def stop(self) -> None:
        self._live.stop()

    def _table(self) -> Table:
        from rich import box
        from rich.table import Table

        table = Table(title=self._title, box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
        shown = self._shown_levels()
        heads = ["round", "reward", "accuracy", *(f"L {name}" for name in shown), "bytes", "s"]
        for head in heads:
            table.add_column(head, justify="right", no_wrap=True)
        for row in self._rows:
            levels = by_level(row)
            cells = [str(row.get("round")), number(row.get("reward")), number(row.get("evaluation/accuracy"))]
            cells += [number(levels.get(name)) for name in shown]
            exchanged = (row.get("comm/bytes_up") or 0) + (row.get("comm/bytes_down") or 0)
            table.add_row(*cells, size(exchanged), seconds(row.get("seconds")))
        return table

    def _shown_levels(self) -> list[str]:
        """As many level columns as fit the terminal."""
        room, shown = self._console.width - _OTHER_COLUMNS, []
        for name in self._levels:
            room -= max(5, len(name) + 2) + 2
            if room < 0:
                break
            shown.append(name)
        return shown


def build_progress(stream: TextIO) -> LiveProgress | PlainProgress:
    """Live on a terminal, plain lines elsewhere."""
    if not stream.isatty():
        return PlainProgress(stream)
    from rich.console import Console

    return LiveProgress(Console(file=stream))


# --- words and numbers --------------------------------------------------------------------------------


def by_level(row: Mapping[str, Any]) -> dict[str, float]:
    """Validation accuracy of each level in a round row."""
    prefix = "evaluation/by_level/"
    return {key.removeprefix(prefix): value for key, value in row.items() if key.startswith(prefix)}


def number(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, int | float) else "·"


def seconds(value: Any) -> str:
    return f"{value:.0f}" if isinstance(value, int | float) else "·"


def size(count: Any) -> str:
    """Bytes in units of a thousand."""
    if not isinstance(count, int | float) or count == 0:
        return "·"
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def outcome(summary: Mapping[str, Any]) -> list[str]:
    """Before and after on held-out problems, as aligned lines."""
    evaluation = summary.get("evaluation") or {}
    before, after = evaluation.get("initial") or {}, evaluation.get("final") or {}
    lines = ["", f"{'Held-out accuracy':<22}{'before':>8}{'after':>8}{'change':>9}"]
    for label, key in (("sampled", "accuracy"), ("greedy", "accuracy_greedy")):
        lines.append(_change(label, before.get(key), after.get(key)))
    for name, value in (after.get("by_level") or {}).items():
        lines.append(_change(f"  level {name}, sampled", (before.get("by_level") or {}).get(name), value))
    total = summary.get("bytes") or {}
    exchanged = f"Exchanged: {size(total.get('up'))} up, {size(total.get('down'))} down."
    stopped = [f"Stopped early: {summary['stopped']}."] if summary.get("stopped") else []
    return [*lines, "", exchanged, *stopped]


def _change(label: str, before: Any, after: Any) -> str:
    both = isinstance(before, int | float) and isinstance(after, int | float)
    change = f"{after - before:+.3f}" if both else "·"
    return f"{label:<22}{number(before):>8}{number(after):>8}{change:>9}"
