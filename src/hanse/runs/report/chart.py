"""Line charts as inline SVG that stretches, with axis labels in HTML that keep their size on any screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hanse.runs.report.formats import fixed, short
from hanse.runs.report.markup import Html, join, tag
from hanse.runs.report.reading import Points
from hanse.runs.report.ticks import Axis, round_axis, value_axis

COLOURS = 8
_WIDTH, _HEIGHT = 1000, 400
_MOST_POINTS = 400
_MOST_MARKS = 80
_MOST_END_LABELS = 10


@dataclass(frozen=True)
class Series:
    """A line. `look`: a colour slot (dashed past the palette), "main" for a mean, "faint" for one of many."""

    name: str
    points: Points
    look: int | str = "main"

    @property
    def style(self) -> str:
        if isinstance(self.look, str):
            return f"line {self.look}"
        return f"line c{self.look % COLOURS}" + (" dashed" if self.look >= COLOURS else "")


@dataclass(frozen=True)
class Chart:
    """Lines over rounds. `subject` says what the values are; the axis covers `also`, so charts compare."""

    title: str
    subject: str
    series: Sequence[Series]
    small: bool = False
    also: Sequence[float] = ()
    legend: bool = True


def line_chart(chart: Chart) -> Html:
    """A figure with caption, legend, axes and lines; nothing where no line has a point."""
    drawn = [series for series in chart.series if series.points]
    if not drawn:
        return Html()
    x_axis = round_axis([x for s in drawn for x, _ in s.points], wanted=3 if chart.small else 8)
    numbers = [y for s in drawn for _, y in s.points] + list(chart.also)
    y_axis = value_axis(numbers, wanted=2 if chart.small else 5)
    ends = [] if chart.small or not 1 < len(drawn) <= _MOST_END_LABELS else drawn
    plot = tag(
        "div",
        y_labels(y_axis),
        tag("div", _picture(chart, drawn, x_axis, y_axis), class_="area"),
        _end_labels(ends, y_axis),
        tag("div", "round", class_="corner", aria_hidden="true"),
        x_labels(x_axis),
        class_="plot small" if chart.small else "plot",
    )
    caption = tag("figcaption", tag("b", chart.title), " ", tag("span", chart.subject, class_="quiet"))
    legend = _legend(drawn) if chart.legend and len(drawn) > 1 else None
    return tag("figure", caption, legend, plot, class_="chart")


def _picture(chart: Chart, drawn: Sequence[Series], x_axis: Axis, y_axis: Axis) -> Html:
    grid = [horizontal(y_axis, tick) for tick in y_axis.ticks]
    lines = [_line(series, x_axis, y_axis) for series in reversed(drawn)]
    return tag(
        "svg",
        tag("title", f"{chart.title}: {chart.subject}"),
        tag("desc", _in_words(drawn)),
        *grid,
        *lines,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
    )


def _in_words(drawn: Sequence[Series]) -> str:
    """The chart for a screen reader: where each line starts and ends."""
    parts = []
    for series in _told(drawn):
        (first, start), (last, end) = series.points[0], series.points[-1]
        parts.append(f"{series.name}: {short(start)} in round {first:g}, {short(end)} in round {last:g}.")
    return " ".join(parts)


def horizontal(axis: Axis, tick: float) -> Html:
    height = _HEIGHT * (1 - axis.place(tick))
    kind = "grid base" if tick == 0 else "grid"
    return tag("path", d=f"M0 {height:.1f}H{_WIDTH}", class_=kind)


def _line(series: Series, x_axis: Axis, y_axis: Axis) -> Html:
    placed = [
        (_WIDTH * x_axis.place(x), _HEIGHT * (1 - y_axis.place(y)), x, y) for x, y in thin(series.points)
    ]
    path = "L".join(f"{left:.1f} {top:.1f}" for left, top, _, _ in placed)
    line = tag("path", d=f"M{path}", class_=series.style)
    alone = len(placed) == 1
    if len(placed) > _MOST_MARKS or (series.look == "faint" and not alone):
        return line
    marks = [
        tag(
            "path",
            tag("title", f"{series.name}, round {x:g}: {short(y)}"),
            d=f"M{left:.1f} {top:.1f}h0",
            class_=f"{series.style} mark{' alone' if alone else ''}",
        )
        for left, top, x, y in placed
    ]
    return tag("g", line, *marks)


def thin(points: Points) -> Points:
    """At most some hundred of the points, evenly, with the first and the last."""
    if len(points) <= _MOST_POINTS:
        return points
    step = (len(points) - 1) / (_MOST_POINTS - 1)
    return [points[round(i * step)] for i in range(_MOST_POINTS)]


def y_labels(axis: Axis) -> Html:
    labels = [
        tag("span", axis.label(tick), style=f"bottom:{100 * axis.place(tick):.2f}%") for tick in axis.ticks
    ]
    return tag("div", *labels, class_="y", aria_hidden="true")


def x_labels(axis: Axis) -> Html:
    labels = [
        tag("span", axis.label(tick), style=f"left:{100 * axis.place(tick):.2f}%") for tick in axis.ticks
    ]
    return tag("div", *labels, class_="x", aria_hidden="true")


def _end_labels(drawn: Sequence[Series], axis: Axis) -> Html:
    """Names beside the ends of their lines, pushed apart where they would overlap."""
    if not drawn:
        return Html()
    order = sorted(drawn, key=lambda series: series.points[-1][1])
    heights = spread([100 * axis.place(series.points[-1][1]) for series in order], gap=6.5)
    labels = [
        tag("span", _swatch(series), series.name, style=f"bottom:{height:.2f}%")
        for series, height in zip(order, heights, strict=True)
    ]
    return tag("div", *labels, class_="ends", aria_hidden="true")


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Ascending heights at least `gap` apart and as little moved as two sweeps allow, within 0 to 100."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + gap) if placed else height)
    ceiling = 100.0
    for i in range(len(placed) - 1, -1, -1):
        placed[i] = min(placed[i], ceiling)
        ceiling = placed[i] - gap
    return placed


def _legend(drawn: Sequence[Series]) -> Html:
    items = [
        tag("li", _swatch(series), series.name, " ", tag("b", fixed(series.points[-1][1])))
        for series in _told(drawn)
    ]
    hint = tag("li", f"values of round {max(s.points[-1][0] for s in drawn):g}", class_="quiet")
    return tag("ul", *items, hint, class_="legend")


def _told(drawn: Sequence[Series]) -> Sequence[Series]:
    """The lines to name, where others are many."""
    return [series for series in drawn if series.look != "faint"] or drawn[:1]


def _swatch(series: Series) -> Html:
    line = tag("path", d="M1 6H23", class_=series.style)
    return tag("svg", line, class_="swatch", viewBox="0 0 24 12", aria_hidden="true")


def panels(charts: Sequence[Chart]) -> Html:
    """Small charts side by side, with one legend where they share their lines."""
    shown = [chart for chart in charts if any(series.points for series in chart.series)]
    if not shown:
        return Html()
    lines: dict[str, Series] = {}
    for series in (series for chart in shown for series in chart.series if series.points):
        lines.setdefault(series.name, series)
    shared = len(lines) > 1 and not any(chart.legend for chart in shown)
    names = [tag("li", _swatch(series), series.name) for series in lines.values()]
    legend = tag("ul", *names, class_="legend") if shared else None
    return join(legend, tag("div", *map(line_chart, shown), class_="panels"))
