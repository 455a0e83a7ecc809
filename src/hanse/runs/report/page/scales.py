"""Where a value lies on a chart, and which round values to write beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Range = tuple[float, float]


@dataclass(frozen=True)
class Shape:
    """A chart's size and margins in drawing units."""

    name: str
    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    x_ticks: int
    y_ticks: int


LARGE = Shape("large", 560, 330, 74, 16, 14, 62, 6, 5)
SMALL = Shape("small", 230, 150, 46, 12, 10, 30, 3, 3)


@dataclass(frozen=True)
class Frame:
    shape: Shape
    xs: Range
    ys: Range

    def x(self, value: float) -> float:
        inner = self.shape.width - self.shape.left - self.shape.right
        return round(self.shape.left + inner * _share(value, self.xs), 1)

    def y(self, value: float) -> float:
        inner = self.shape.height - self.shape.top - self.shape.bottom
        return round(self.shape.top + inner * (1 - _share(value, self.ys)), 1)


def _share(value: float, span: Range) -> float:
    return (value - span[0]) / (span[1] - span[0])


def span_of(numbers: Sequence[float], zero: bool = True) -> Range:
    """A range with some width around the numbers, with 0 in it where `zero`."""
    known = [*numbers, 0.0] if zero else [*numbers]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if low == high:
        room = abs(low) or 1.0
        return (low if low == 0 else low - room / 2, high + room / 2)
    return low, high


def widen(span: Range, count: int) -> Range:
    """The range extended to whole steps."""
    step = _step(span, count)
    return math.floor(span[0] / step + 1e-9) * step, math.ceil(span[1] / step - 1e-9) * step


def ticks(span: Range, count: int, whole: bool = False) -> list[float]:
    """Round values inside the range, about `count` of them."""
    step = max(_step(span, count), 1.0) if whole else _step(span, count)
    first, last = math.ceil(span[0] / step - 1e-9), math.floor(span[1] / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def _step(span: Range, count: int) -> float:
    raw = (span[1] - span[0]) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    return next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * (1 - 1e-9))
