"""Tables with captions that scroll sideways on a narrow screen."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.runs.report.markup import Html, tag


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> Html:
    """Rows of cells, the first of each is its head; columns after the first `texts` hold numbers."""
    if not rows:
        return Html()
    kinds = ["text" if i < texts else "number" for i in range(len(heads))]
    top = [tag("th", head, scope="col", class_=kind) for head, kind in zip(heads, kinds, strict=True)]
    body = [_row(row, kinds) for row in rows]
    inner = tag(
        "table", tag("caption", caption), tag("thead", tag("tr", *top)), tag("tbody", *body), class_="data"
    )
    return tag("div", inner, class_="scroll", role="region", aria_label=caption, tabindex="0")


def _row(cells: Sequence[str], kinds: Sequence[str]) -> Html:
    first = tag("th", cells[0], scope="row", class_=kinds[0])
    rest = [tag("td", cell, class_=kind) for cell, kind in zip(cells[1:], kinds[1:], strict=True)]
    return tag("tr", first, *rest)


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
