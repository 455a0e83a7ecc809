"""Numbers in words that people read."""

from __future__ import annotations

import math
from typing import Any

NONE = "–"


def finite(value: Any) -> float | None:
    """A finite number, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def plain(value: Any) -> str:
    number = finite(value)
    if number is None:
        return NONE
    if number == 0:
        return "0"
    if abs(number) < 1e-3 or abs(number) >= 1e6:
        return f"{number:.2e}".replace("-", "\N{MINUS SIGN}")
    return f"{number:.3g}".replace("-", "\N{MINUS SIGN}") if abs(number) < 1000 else f"{number:,.0f}"


def score(value: Any) -> str:
    """An accuracy as percent; a mean reward that is no share stays a number."""
    number = finite(value)
    if number is None or not 0 <= number <= 1:
        return plain(value)
    return f"{100 * number:.1f}%"


def change(before: Any, after: Any) -> str:
    """In percentage points where both are shares."""
    first, last = finite(before), finite(after)
    if first is None or last is None:
        return NONE
    shares = 0 <= first <= 1 and 0 <= last <= 1
    difference = round((last - first) * (100 if shares else 1), 1 if shares else 3)
    sign = "+" if difference > 0 else "\N{MINUS SIGN}" if difference < 0 else "±"
    size = f"{abs(difference):.1f}" if shares else f"{abs(difference):.3g}"
    return f"{sign}{size}" + (" points" if shares else "")


def count(value: Any) -> str:
    number = finite(value)
    return NONE if number is None else f"{number:,.0f}"


def size(value: Any) -> str:
    number = finite(value)
    if number is None:
        return NONE
    for unit in ("B", "kB", "MB", "GB"):
        if abs(number) < 1000:
            return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def duration(value: Any) -> str:
    seconds = finite(value)
    if seconds is None:
        return NONE
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def plural(number: Any, word: str) -> str:
    return f"{count(number)} {word}" + ("" if finite(number) == 1 else "s")
