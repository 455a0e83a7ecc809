"""Points over a logarithmic axis of bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hanse.runs.report.chart import COLOURS, horizontal, x_labels, y_labels
from hanse.runs.report.formats import fixed, size
from hanse.runs.report.markup import Html, tag
from hanse.runs.report.reading import mean
from hanse.runs.report.ticks import Axis, round_step

_WIDTH, _HEIGHT = 1000, 400
_MARGIN = 0.35
_MOST_TICKS = 8


@dataclass(frozen=True)
class Cloud:
    """An arm's runs: (bytes, accuracy, which run)."""

    name: str
    points: Sequence[tuple[float, float, str]]
    slot: int

    @property
    def style(self) -> str:
        return f"line c{self.slot % COLOURS}"

    @property
    def centre(self) -> tuple[float, float]:
        return mean([x for x, _, _ in self.points]) or 0.0, mean([y for _, y, _ in self.points]) or 0.0


class LogAxis(Axis):
    """Over the decimal logarithm of bytes."""

    def label(self, tick: float) -> str:
        return size(10**tick)


def log_axis(numbers: Sequence[float]) -> LogAxis:
    """1, 2 and 5 times powers of ten, or the powers alone where those are too many."""
    low, high = math.log10(min(numbers)) - _MARGIN, math.log10(max(numbers)) + _MARGIN
    decades = range(math.floor(low), math.ceil(high) + 1)
    ticks = [math.log10(m) + d for d in decades for m in (1, 2, 5) if low <= math.log10(m) + d <= high]
    if len(ticks) > _MOST_TICKS:
        ticks = [float(d) for d in decades if low <= d <= high]
    return LogAxis(low, high, tuple(ticks))


def near_axis(numbers: Sequence[float], wanted: int = 4) -> Axis:
    """Round numbers around the values, not from zero: differences between arms are small."""
    low, high = min(numbers), max(numbers)
    if high - low < 1e-6:
        low, high = low - 0.05, high + 0.05
    step = round_step((high - low) / wanted, whole=False)
    first, last = math.floor(low / step), math.ceil(high / step)
    ticks = tuple(i * step for i in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks)


def scatter(title: str, subject: str, clouds: Sequence[Cloud]) -> Html:
    """A small dot a run, a large one an arm's mean; nothing where no arm has a point."""
    drawn = [cloud for cloud in clouds if cloud.points]
    if not drawn:
        return Html()
    x_axis = log_axis([x for cloud in drawn for x, _, _ in cloud.points])
    y_axis = near_axis([y for cloud in drawn for _, y, _ in cloud.points])
    picture = tag(
        "svg",
        tag("title", f"{title}: {subject}"),
        tag("desc", " ".join(f"{c.name}: {size(c.centre[0])}, {fixed(c.centre[1])}." for c in drawn)),
        *(horizontal(y_axis, tick) for tick in y_axis.ticks),
        *(dot for cloud in drawn for dot in _dots(cloud, x_axis, y_axis)),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
    )
    corner = tag("div", "bytes", class_="corner", aria_hidden="true")
    plot = tag(
        "div", y_labels(y_axis), tag("div", picture, class_="area"), corner, x_labels(x_axis), class_="plot"
    )
    caption = tag("figcaption", tag("b", title), " ", tag("span", subject, class_="quiet"))
    return tag("figure", caption, _legend(drawn), plot, class_="chart")


def _dots(cloud: Cloud, x_axis: Axis, y_axis: Axis) -> list[Html]:
    def dot(x: float, y: float, name: str, look: str) -> Html:
        left, top = _WIDTH * x_axis.place(math.log10(x)), _HEIGHT * (1 - y_axis.place(y))
        words = tag("title", f"{cloud.name}, {name}: {size(x)}, {fixed(y)}")
        return tag("path", words, d=f"M{left:.1f} {top:.1f}h0", class_=cloud.style, style=look)

    runs = [dot(x, y, name, "stroke-width:6;opacity:.45") for x, y, name in cloud.points]
    return [*runs, dot(*cloud.centre, "mean", "stroke-width:13")]


def _legend(drawn: Sequence[Cloud]) -> Html:
    items = [
        tag(
            "li",
            tag("svg", _sample(cloud), class_="swatch", viewBox="0 0 24 12", aria_hidden="true"),
            cloud.name,
        )
        for cloud in drawn
    ]
    hint = tag("li", "large: mean of an arm; small: its runs", class_="quiet")
    return tag("ul", *items, hint, class_="legend")


def _sample(cloud: Cloud) -> Html:
    return tag("path", d="M12 6h0", class_=cloud.style, style="stroke-width:11")
