"""Tables, charts with their numbers, and sections."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.runs.report.page.charts import Axes, Series, legend, line_chart
from hanse.runs.report.page.markup import Child, Html, el
from hanse.runs.report.page.numbers import NONE


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[Child]], wide: bool = False) -> Html:
    """The first column names the row; the others are numbers, unless the table is `wide` with text."""
    columns = [el("th", name, scope="col") for name in head]
    body = [
        el(
            "tr",
            el("th", cells[0], scope="row", data_label=head[0]),
            *[el("td", cell, data_label=name) for cell, name in zip(cells[1:], head[1:], strict=True)],
        )
        for cells in rows
    ]
    inner = el(
        "table",
        el("caption", caption),
        el("thead", el("tr", *columns)),
        el("tbody", *body),
        class_="texts" if wide else "numbers",
    )
    return el("div", inner, class_="scroll", tabindex=0, role="region", aria_label=caption)


def section(name: str, title: str, *children: Child) -> Html:
    return el("section", el("h2", title, id=name), *children, aria_labelledby=name)


def folded(title: str, *children: Child, open_: bool = False) -> Html:
    return el("details", el("summary", title), *children, open="" if open_ else None)


def figure(series: Sequence[Series], axes: Axes) -> Html:
    """A large chart with its legend, and the same numbers as a table."""
    shown = [one for one in series if one.points]
    caption = el("figcaption", el("h3", axes.title))
    if not shown:
        return el("figure", caption, el("p", "No data yet.", class_="empty"))
    chart = line_chart(shown, axes)
    return el("figure", caption, legend(shown), chart, folded("The numbers", numbers(shown, axes)))


def numbers(series: Sequence[Series], axes: Axes) -> Html:
    """One row a round, one column a series."""
    columns = [dict(one.points) for one in series]
    rounds = sorted({x for column in columns for x in column})
    rows = [
        [f"{x:g}", *[axes.write(column[x]) if x in column else NONE for column in columns]] for x in rounds
    ]
    return table(f"{axes.title}: {axes.y_label}", [axes.x_label, *[one.name for one in series]], rows)
