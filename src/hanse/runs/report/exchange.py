"""What a liar sent, beside what an honest node wrote: as text."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.runs.report.completions import cell, in_words, reward_badge
from hanse.runs.report.data import ReportData, Row
from hanse.runs.report.formats import known
from hanse.runs.report.markup import Html, join, tag
from hanse.runs.report.reading import grouped, numbered

_INTRODUCTION = """A completion of a liar and one of an honest node, to the same problem where both answered
it, in the first, a middle and the last round. Text is shown as it was sent."""
_MARKS = {
    True: ("shows the attack", "trouble"),
    False: ("without the attack", "plain"),
}


def exchange(data: ReportData) -> Html:
    """At most three pairs; without liars, honest completions alone."""
    rounds = [rows for _, rows in sorted(_by_round(data).items())]
    both = [rows for rows in rounds if _of(rows, lies=True) and _of(rows, lies=False)]
    chosen = both or rounds
    picked = sorted({0, len(chosen) // 2, len(chosen) - 1}) if chosen else []
    articles = [_article(chosen[i]) for i in picked]
    if not articles:
        return Html()
    title = "Poisoned and clean" if both else "What was sent"
    told = tag("p", " ".join(_INTRODUCTION.split())) if both else None
    return join(tag("h3", title), told, tag("div", *articles, class_="pairs"))


def _by_round(data: ReportData) -> dict[float, list[Row]]:
    groups = grouped(numbered(data.exchange), lambda row: repr(row["round"]))
    return {float(rows[0]["round"]): rows for rows in groups.values()}


def _of(rows: Sequence[Row], *, lies: bool) -> list[Row]:
    """Rewarded ones first; of honest ones, those without the attack."""
    found = [row for row in rows if (row.get("lies") is True) == lies]
    return sorted(found, key=lambda row: (-(known(row.get("reward")) or 0.0), row.get("success") is True))


def _article(rows: Sequence[Row]) -> Html:
    lying, honest = _of(rows, lies=True), _of(rows, lies=False)
    first = lying[0] if lying else None
    same = [row for row in honest if first and row.get("problem_id") == first.get("problem_id")]
    shown = [*lying[:1], *(same or honest)[:1]]
    together = bool(first and same)
    common = _problem(shown[0]) if together or len(shown) == 1 else []
    sides = [_side(row, alone=not common) for row in shown]
    number = known(shown[0].get("round"))
    head = tag("h3", f"Round {number:g}" if number is not None else "Round unknown")
    return tag("article", head, *common, *sides, class_="pair")


def _problem(row: Row) -> list[Html]:
    return [cell("problem", in_words(row.get("prompt"))), cell("expected", in_words(row.get("answer")))]


def _side(row: Row, *, alone: bool) -> Html:
    lies = row.get("lies") is True
    shows = row.get("success") is True
    word = "poisoned" if lies else "honest" if shows else "clean"
    label = f"{word}, by {row.get('node', 'a node')}"
    written = cell(label, in_words(row.get("completion")), _marks(row), kind="sent")
    return tag("div", *(_problem(row) if alone else []), written, class_="side") if alone else written


def _marks(row: Row) -> Html:
    success = row.get("success")
    told = _MARKS.get(success) if isinstance(success, bool) else None
    badges = [reward_badge(row), _standing(row)]
    badges += [tag("span", told[0], class_=f"badge {told[1]}")] if told else []
    return join(*(part for badge in badges for part in (badge, Html(" "))))


def _standing(row: Row) -> Html:
    standing, why = in_words(row.get("standing")), row.get("rejected_by")
    if not standing:
        return Html()
    if standing == "accepted":
        return tag("span", "accepted", class_="badge plain")
    return tag("span", f"{standing} by {why}" if why else standing, class_="badge note")
