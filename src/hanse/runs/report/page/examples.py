"""Completions before and after, side by side for the same problem."""

from __future__ import annotations

from hanse.runs.report.data import ReportData, Row
from hanse.runs.report.page.markup import Child, Html, el
from hanse.runs.report.page.numbers import finite, plain, plural
from hanse.runs.report.page.tables import folded, table
from hanse.runs.report.page.tables import section as part

_FIELDS = ("cohort", "level", "problem_id")
Key = tuple[object, ...]


def examples(data: ReportData) -> Html:
    sampled, greedy = (
        [row for row in data.completions if bool(row.get("greedy")) is kind] for kind in (False, True)
    )
    blocks = [
        folded(f"{title} ({plural(len(pairs), 'problem')})", _table(title, pairs), open_=i == 0)
        for i, (title, rows) in enumerate((("Sampled", sampled), ("Greedy", greedy)))
        if (pairs := pair(rows))
    ]
    empty = el("p", "No completions recorded yet.", class_="empty")
    note = "The same held-out problems, answered by the model before training and after the last round."
    return part(
        "examples", "Completions, before and after", el("p", note, class_="note"), *(blocks or [empty])
    )


def pair(rows: list[Row]) -> list[tuple[Row | None, Row | None]]:
    """Rows of one problem side by side; the n-th before goes with the n-th after."""
    found: dict[Key, dict[str, Row]] = {}
    seen: dict[Key, int] = {}
    for row in rows:
        when = "after" if row.get("when") == "after" else "before"
        key = tuple(str(row.get(field)) for field in _FIELDS)
        turn = seen.get((when, *key), 0)
        seen[(when, *key)] = turn + 1
        found.setdefault((*key, turn), {})[when] = row
    return [(both.get("before"), both.get("after")) for both in found.values()]


def _table(title: str, pairs: list[tuple[Row | None, Row | None]]) -> Html:
    cohorts = any((before or after or {}).get("cohort") is not None for before, after in pairs)
    head = [*(["model of"] if cohorts else []), "level", "prompt", "expected", "before", "after"]
    rows = [_row(before, after, cohorts) for before, after in pairs]
    return table(f"{title} completions before and after training", head, rows, wide=True)


def _row(before: Row | None, after: Row | None, cohorts: bool) -> list[Child]:
    row = before or after or {}
    whose: list[Child] = [_plain(row.get("cohort"))] if cohorts else []
    start: list[Child] = [
        _plain(row.get("level")),
        _verbatim(row.get("prompt")),
        _verbatim(row.get("answer")),
    ]
    return [*whose, *start, _answer(before), _answer(after)]


def _plain(value: object) -> str:
    return "–" if value is None else str(value)


def _verbatim(value: object) -> Html:
    return el("pre", _plain(value), dir="auto")


def _answer(row: Row | None) -> Html:
    if row is None:
        return el("span", "not recorded", class_="empty")
    reward = finite(row.get("reward"))
    if reward is None:
        mark = el("span", "unscored", class_="badge look")
    else:
        sign = "✓ " if reward >= 1 else "✗ " if reward <= 0 else ""
        state = "ok" if reward >= 1 else "bad" if reward <= 0 else "look"
        mark = el("span", f"{sign}reward {plain(reward)}", class_=f"badge {state}")
    return el("div", _verbatim(row.get("completion")), mark, class_="answer")
