"""Numbers as a person reads them."""

from __future__ import annotations

from typing import Any

MISSING = "–"

_LARGEST = 1e100


def known(value: Any) -> float | None:
    """A number that can be drawn, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -_LARGEST < value < _LARGEST else None


def fixed(value: Any, digits: int = 3) -> str:
    number = known(value)
    return MISSING if number is None else _minus(f"{number:.{digits}f}")


def short(value: Any) -> str:
    """Three significant digits, whatever the size."""
    number = known(value)
    if number is None:
        return MISSING
    if number and not 1e-3 <= abs(number) < 1e5:
        return _minus(f"{number:.2e}")
    if abs(number) >= 100 or number.is_integer():
        return _minus(f"{number:,.0f}")
    return _minus(f"{number:#.3g}")


def signed(value: float | None) -> str:
    if value is None:
        return MISSING
    text = f"{value:+.3f}"
    return "0.000" if text in ("+0.000", "-0.000") else _minus(text)


def share(value: Any) -> str:
    number = known(value)
    if number is None:
        return MISSING
    text = f"{number:.1%}"
    return "under 0.1%" if text == "0.0%" and number > 0 else text.replace(".0%", "%").replace("-", "−")


def whole(value: Any) -> str:
    number = known(value)
    return MISSING if number is None else _minus(f"{number:,.0f}")


def plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def duration(value: Any) -> str:
    """Seconds in the two largest units that matter."""
    number = known(value)
    if number is None:
        return MISSING
    if number < 10:
        return f"{number:.1f} s"
    seconds = round(number)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600:,} h {seconds % 3600 // 60} min"


def difference(before: Any, after: Any) -> float | None:
    first, second = known(before), known(after)
    return None if first is None or second is None else second - first


def _minus(text: str) -> str:
    return text.replace("-", "−")


def size(count: Any) -> str:
    """Bytes in units of a thousand, three digits; a dot where there are none."""
    number = known(count)
    if not number:
        return "·"
    for unit in ("B", "kB", "MB", "GB"):
        if abs(number) < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.0f} TB" if number >= 100 else f"{number:.3g} TB"


def number(value: Any) -> str:
    """Three decimals for logs and terminals, with a plain minus sign; a dot where there is none."""
    found = known(value)
    return "·" if found is None else f"{found:.3f}"


def printable(text: str) -> str:
    """One line without control characters, which could move a terminal's cursor."""
    return "".join(c if c.isprintable() else " " for c in text)
