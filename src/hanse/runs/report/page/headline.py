"""What came out: held-out accuracy before and after."""

from __future__ import annotations

from hanse.runs.report.data import ReportData
from hanse.runs.report.page.markup import Child, Html, el, join
from hanse.runs.report.page.numbers import change, duration, finite, plural, score
from hanse.runs.report.page.reading import clients, levels, section
from hanse.runs.report.page.tables import section as part
from hanse.runs.report.page.tables import table

_MODES = {
    "federated": "trained one model together; each kept its problems and completions to itself",
    "local": "each trained a model of its own, without exchange",
    "central": "pooled as one: a single learner saw every problem",
}


def header(data: ReportData) -> Html:
    return el(
        "header",
        el("p", "Hanse · run report", class_="kicker"),
        el("h1", data.name),
        el("p", _sentence(data), class_="lead"),
        _state(data),
        el("div", *[_tile(data, *tile) for tile in _TILES], class_="tiles"),
        el(
            "p",
            "Measured on held-out problems: no client trains on them, and they choose nothing. “Sampled” "
            "draws completions at temperature 1; “greedy” always takes the likeliest token. All are means "
            "over levels.",
            class_="note",
        ),
    )


_TILES = (
    ("Sampled accuracy", "accuracy"),
    ("Greedy accuracy", "accuracy_greedy"),
    ("Worst level, sampled", "worst_level"),
)


def _sentence(data: ReportData) -> str:
    names = clients(data)
    who = plural(len(names), "client") if names else "The clients"
    seconds = data.summary.get("seconds")
    rounds = data.summary.get(
        "rounds", max((finite(row.get("round")) or 0 for row in data.rounds), default=None)
    )
    spent = f", in {duration(seconds)}" if finite(seconds) is not None else ""
    done = f" {plural(rounds, 'round')}{spent}." if finite(rounds) is not None else ""
    return f"{who} {_MODES.get(data.mode, f'({data.mode})')}.{done}"


def _state(data: ReportData) -> Html | None:
    stopped = data.summary.get("stopped")
    if not section(data, "evaluation", "final"):
        message = "This run has not finished. " + (
            f"State: {stopped}." if stopped else "Numbers are partial."
        )
    elif stopped:
        message = f"Stopped before the last round: {stopped}."
    else:
        return None
    return el("p", message, class_="banner", role="status")


def _tile(data: ReportData, label: str, key: str) -> Html:
    before = section(data, "evaluation", "initial").get(key)
    after = section(data, "evaluation", "final").get(key)
    return el(
        "div",
        el("h2", label),
        el(
            "p",
            el("span", score(before), class_="before"),
            el("span", " → ", class_="arrow"),
            el("strong", score(after)),
            class_="figure",
        ),
        el("p", change(before, after), class_="change"),
        class_="tile",
    )


def outcome(data: ReportData) -> Html:
    names = levels(data)
    return part(
        "outcome",
        "Held-out accuracy",
        _by_level(data, names) if names else el("p", "No evaluation yet.", class_="empty"),
        _by_client(data),
    )


def _by_level(data: ReportData, names: list[str]) -> Html:
    head = [
        "level",
        "sampled before",
        "after",
        "change",
        "",
        "greedy before",
        "greedy after",
        "greedy change",
    ]
    rows: list[list[Child]] = [_row(data, name, name, "by_level", "by_level_greedy") for name in names]
    rows.append(_row(data, "mean over levels", None, "accuracy", "accuracy_greedy"))
    return table("Held-out accuracy by level, before and after training", head, rows)


def _row(data: ReportData, label: str, level: str | None, *keys: str) -> list[Child]:
    pairs = []
    for key in keys:
        both = [
            section(data, "evaluation", when).get(key)
            if level is None
            else section(data, "evaluation", when, key).get(level)
            for when in ("initial", "final")
        ]
        pairs.append(both)
    (s0, s1), (g0, g1) = pairs
    greedy: list[Child] = [score(g0), score(g1), change(g0, g1)]
    return [label, score(s0), score(s1), change(s0, s1), _bar(s0, s1), *greedy]


def _bar(before: object, after: object) -> Html | None:
    """From hollow (before) to full (after), on a line from 0 to 100%."""
    marks = [finite(before), finite(after)]
    first, last = (None if v is None or not 0 <= v <= 1 else round(4 + 112 * v, 1) for v in marks)
    lines: list[Child] = [el("path", d="M4 8H116", class_="track")]
    if first is not None and last is not None:
        lines.append(el("path", d=f"M{first:g} 8H{last:g}", class_="way"))
    if first is not None:
        lines.append(el("circle", cx=first, cy=8, r=3.6, class_="from"))
    if last is not None:
        lines.append(el("circle", cx=last, cy=8, r=4, class_="to"))
    return el("svg", *lines, viewBox="0 0 120 16", class_="bar", aria_hidden="true")


def _by_client(data: ReportData) -> Html | None:
    first = section(data, "evaluation", "initial", "by_client")
    last = section(data, "evaluation", "final", "by_client")
    names = [name for name in clients(data) if name in first or name in last]
    if not names:
        return None
    rows: list[list[Child]] = [
        [name, score(first.get(name)), score(last.get(name)), change(first.get(name), last.get(name)), bar]
        for name in names
        if (bar := _bar(first.get(name), last.get(name)))
    ]
    whose = "its own model" if data.mode == "local" else "the model"
    note = f"What {whose} reaches on each client's own mix of levels, sampled, on held-out problems."
    head = ["client", "before", "after", "change", ""]
    return join(el("p", note, class_="note"), table("Held-out accuracy on each client's own mix", head, rows))
