"""Axes with round numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_FLAT = 1e-100


@dataclass(frozen=True)
class Axis:
    """A range and where its ticks are."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """Where a value lies between 0 (low end) and 1."""
        return (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)

    def label(self, tick: float) -> str:
        step = self.ticks[1] - self.ticks[0] if len(self.ticks) > 1 else tick or 1.0
        largest = max(abs(self.low), abs(self.high))
        if largest >= 1e5 or largest < 1e-3:
            return f"{tick:.1e}".replace("-", "−") if tick else "0"
        digits = next((d for d in range(9) if abs(round(step, d) - step) < 1e-6 * step), 9)
        return f"{tick:,.{digits}f}".replace("-", "−")


def value_axis(numbers: Sequence[float], wanted: int = 5) -> Axis:
    """From zero (or below, if need be) to a round number above all values; 0 to 1 for shares."""
    low, high = min([0.0, *numbers]), max([0.0, *numbers])
    if low >= 0 and 0.5 < high <= 1:
        high = 1.0
    if high - low < _FLAT:
        high = low + 1.0
    step = round_step((high - low) / wanted, whole=all(number.is_integer() for number in numbers))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(i * step for i in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks)


def round_axis(numbers: Sequence[float], wanted: int = 6) -> Axis:
    """Whole rounds, from the first to the last one."""
    low, high = min(numbers, default=0.0), max(numbers, default=1.0)
    if not high > low:
        low, high = low - 0.5, high + 0.5
    step = round_step((high - low) / wanted, whole=True)
    first = math.ceil(low / step - 1e-9)
    ticks = [float(i * step) for i in range(first, math.floor(high / step + 1e-9) + 1)]
    return Axis(low, high, tuple(ticks))


def round_step(rough: float, whole: bool) -> float:
    """1, 2 or 5 times a power of ten, at least as large as `rough`; with `whole`, at least 1."""
    if whole and rough <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next((m * power for m in (1, 2, 5) if m * power >= rough * (1 - 1e-9)), 10 * power)
