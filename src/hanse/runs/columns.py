"""What a row of a progress display shows, and in which words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hanse.runs.report.formats import known, number, plural, printable, size

Row = Mapping[str, Any]
Columns = list[tuple[str, str]]


def fitting(levels: Sequence[str], exchanged: bool, width: int, swarm: bool = False) -> tuple[Columns, int]:
    """(metric, head) of the columns that fit, as many levels as possible, and the gap between them."""
    first = [("round", "round"), *(_OF_SWARM if swarm else [("reward", "reward")])]
    first.append(("evaluation/accuracy", "accuracy"))
    last = [("comm/bytes_up", "up"), ("comm/bytes_down", "down")] if exchanged else []
    last += [("seconds", "s")]
    middle = [(_LEVEL + name, _head(name)) for name in levels]
    for shown in range(len(middle), -1, -1):
        columns = first + middle[:shown] + last
        used = sum(max(*map(len, head.split("\n")), _WIDTHS.get(key, 5)) for key, head in columns)
        for gap in (2, 1):
            if used + gap * len(columns) <= width:
                return columns, gap
    return [*first, *last][:3], 1


_OF_SWARM = [
    ("swarm/attack_success", "attack\nsuccess"),
    ("swarm/honest_reward", "honest\nreward"),
    ("swarm/honest_rejects", "honest\nrejects"),
]
_LEVEL = "evaluation/by_level/"
_LONGEST_HEAD = 12
_WIDTHS = {"comm/bytes_up": 7, "comm/bytes_down": 7, "evaluation/accuracy": 8, "reward": 6, "seconds": 5}


def _head(level: str) -> str:
    short = f"L{level}" if level.isdigit() else printable(level)
    return short if len(short) <= _LONGEST_HEAD else short[: _LONGEST_HEAD - 1] + "…"


def cell(key: str, value: Any) -> str:
    if key == "round":
        return str(value)
    if key.startswith("comm/"):
        return size(value)
    return seconds(value) if key == "seconds" else number(value)


def by_level(row: Row) -> dict[str, Any]:
    """Validation accuracy of each level in a round row."""
    return {key.removeprefix(_LEVEL): value for key, value in row.items() if key.startswith(_LEVEL)}


def parties(names: Sequence[str]) -> str:
    """'4 nodes' of a swarm, '5 clients' elsewhere."""
    swarm = bool(names) and all(re.fullmatch(r"node-\d+", name) for name in names)
    return plural(len(names), "node" if swarm else "client")


def who(names: Sequence[str]) -> str:
    return f"client {names[0]}" if len(names) == 1 else f"{parties(names)}: {', '.join(names)}"


def seconds(value: Any) -> str:
    return "·" if known(value) is None else f"{value:.0f}"
