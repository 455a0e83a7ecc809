"""Tables with captions that scroll sideways on a narrow screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hanse.runs.report.formats import fixed, known
from hanse.runs.report.markup import Html, escape, tag

Groups = Sequence[tuple[str, int]]


def table(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1, groups: Groups = ()
) -> Html:
    """Rows of cells, the first of each is its head; columns after the first `texts` hold numbers.

    `groups` are heads above several columns each: name and how many.
    """
    if not rows:
        return Html()
    kinds = ["text" if i < texts else "number" for i in range(len(heads))]
    top = [tag("th", head, scope="col", class_=kind) for head, kind in zip(heads, kinds, strict=True)]
    above = [tag("th", n, colspan=w, scope="colgroup") if n else tag("td", colspan=w) for n, w in groups]
    head = tag("thead", tag("tr", *above, class_="groups") if above else None, tag("tr", *top))
    body = tag("tbody", *(_row(row, kinds) for row in rows))
    inner = tag("table", tag("caption", tag("span", caption)), head, body)
    return tag("div", inner, class_="scroll", role="region", aria_label=caption, tabindex="0")


def _row(cells: Sequence[str], kinds: Sequence[str]) -> Html:
    first = tag("th", cells[0], scope="row", class_=kinds[0])
    rest = [tag("td", cell, class_=kind) for cell, kind in zip(cells[1:], kinds[1:], strict=True)]
    return tag("tr", first, *rest)


def arrow(before: Any, after: Any) -> Html:
    """From one value to another, or the one that is known."""
    if known(before) is None or known(after) is None:
        return escape(fixed(after) if known(before) is None else fixed(before))
    sign = tag("span", " → ", class_="quiet")
    return tag("span", tag("span", fixed(before), class_="before"), sign, fixed(after))


def change(value: float | None, text: str) -> Html:
    """A change with its sign, coloured as a gain or a loss."""
    kind = "even" if value is None or abs(value) < 5e-4 else "gain" if value > 0 else "loss"
    return tag("span", text, class_=kind)


def tiles(entries: Sequence[tuple[str, str, str]]) -> Html:
    """Figures that matter: label, value, remark."""
    boxes = [
        tag("div", tag("dt", label), tag("dd", value, class_="figure"), tag("dd", remark, class_="quiet"))
        for label, value, remark in entries
    ]
    return tag("dl", *boxes, class_="tiles") if boxes else Html()
