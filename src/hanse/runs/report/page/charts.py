"""Line charts as inline SVG, large ones and small multiples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hanse.runs.report.page.markup import Html, el, join
from hanse.runs.report.page.numbers import plain
from hanse.runs.report.page.reading import Points
from hanse.runs.report.page.scales import LARGE, SMALL, Frame, Range, Shape, span_of, ticks, widen

COLOURS = 8
MANY = 12
_MARKED = 40
_MARKS = (
    "M-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0z",
    "M-3-3h6v6h-6z",
    "M0-4.4L4.4 0L0 4.4L-4.4 0z",
    "M0-4L4 3.2H-4z",
    "M0 4L4-3.2H-4z",
    "M-1.2-4h2.4v2.8h2.8v2.4h-2.8v2.8h-2.4v-2.8h-2.8v-2.4h2.8z",
)


@dataclass(frozen=True)
class Series:
    """`look` is a colour and a marker by number; "mean" and "many" are drawn neutral."""

    name: str
    points: Points
    look: int | str


@dataclass(frozen=True)
class Axes:
    """What a chart shows: labels, how a value is written, and the range where it is shared."""

    title: str
    y_label: str
    write: Callable[[float], str] = plain
    ys: Range | None = None
    x_label: str = "round"


def looks(names: Sequence[str]) -> dict[str, int | str]:
    """A look for each name; too many to tell apart are all drawn alike."""
    return {name: i if len(names) <= MANY else "many" for i, name in enumerate(names)}


def line_chart(series: Sequence[Series], axes: Axes, shape: Shape = LARGE, crosses: Points = ()) -> Html:
    """One SVG; `crosses` mark rounds at the foot of the chart."""
    shown = [one for one in series if one.points]
    xs = [x for one in shown for x, _ in one.points] + [x for x, _ in crosses]
    if not xs:
        return el("p", "No data yet.", class_="empty")
    ys = axes.ys or span_of([y for one in shown for _, y in one.points])
    frame = Frame(shape, span_of(xs, zero=False), widen(ys, shape.y_ticks))
    return el(
        "svg",
        el("title", axes.title),
        _grid(frame, axes),
        *[_line(one, frame, axes) for one in shown],
        *[_cross(x, frame) for x, _ in crosses],
        viewBox=f"0 0 {shape.width:g} {shape.height:g}",
        class_=f"chart {shape.name}",
        role="img",
    )


def small_chart(series: Sequence[Series], axes: Axes, crosses: Points = ()) -> Html:
    return line_chart(series, axes, SMALL, crosses)


def legend(series: Sequence[Series]) -> Html:
    """Names beside the same line and marker as in the chart."""
    drawn = [one for one in series if one.look != "many"]
    items = [el("li", _sample(one), one.name) for one in drawn]
    if len(drawn) < len(series):
        items.append(el("li", _sample(Series("", (), "many")), f"each of {len(series) - len(drawn)}"))
    return el("ul", *items, class_="legend")


def _sample(one: Series) -> Html:
    mark = _mark(one.look, 15, 8, None) if isinstance(one.look, int) else None
    line = el("path", d="M1 8H29", class_="line")
    return el(
        "svg",
        el("g", line, mark, class_=_class(one.look)),
        viewBox="0 0 30 16",
        class_="key",
        aria_hidden="true",
    )


def _class(look: int | str) -> str:
    if isinstance(look, str):
        return f"series {look}"
    return f"series s{look % COLOURS}" + (" dashed" if look >= COLOURS else "")


def _line(one: Series, frame: Frame, axes: Axes) -> Html:
    ordered = sorted(one.points)
    path = "M" + "L".join(f"{frame.x(x):g} {frame.y(y):g}" for x, y in ordered)
    gap = -(-len(ordered) // _MARKED)
    marks = [
        _mark(one.look, frame.x(x), frame.y(y), f"{one.name}, {axes.x_label} {x:g}: {axes.write(y)}")
        for x, y in ordered[::gap]
    ]
    return el(
        "g", el("path", d=path, class_="line"), *marks, class_=_class(one.look), data_points=len(ordered)
    )


def _mark(look: int | str, x: float, y: float, label: str | None) -> Html:
    shape = _MARKS[look % len(_MARKS)] if isinstance(look, int) else _MARKS[0]
    title = None if label is None else el("title", label)
    return el("path", title, d=shape, transform=f"translate({x:g} {y:g})", class_="mark")


def _cross(x: float, frame: Frame) -> Html:
    title = el("title", f"upload refused in round {x:g}")
    foot = frame.y(frame.ys[0])
    return el(
        "path", title, d="M-4-4L4 4M-4 4L4-4", transform=f"translate({frame.x(x):g} {foot:g})", class_="cross"
    )


def _grid(frame: Frame, axes: Axes) -> Html:
    shape = frame.shape
    left, right = shape.left, shape.width - shape.right
    bottom = shape.height - shape.bottom
    lines, labels = [], []
    for value in ticks(frame.ys, shape.y_ticks):
        y = frame.y(value)
        lines.append(el("path", d=f"M{left:g} {y:g}H{right:g}", class_="zero" if value == 0 else "grid"))
        labels.append(el("text", axes.write(value), x=left - 7, y=y, class_="tick y"))
    for value in ticks(frame.xs, shape.x_ticks, whole=True):
        labels.append(el("text", f"{value:g}", x=frame.x(value), y=bottom + 8, class_="tick x"))
    middle = (shape.top + bottom) / 2
    names = [el("text", axes.x_label, x=(left + right) / 2, y=shape.height - 4, class_="axis x")]
    if shape is LARGE:
        turned = f"translate(14 {middle:g}) rotate(-90)"
        names.append(el("text", axes.y_label, transform=turned, class_="axis y"))
    return el("g", join(*lines), join(*labels), join(*names), class_="frame")
