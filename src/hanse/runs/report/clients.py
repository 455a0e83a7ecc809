"""Each client's signal: what its GRPO said about its problems, and how much it counted."""

from __future__ import annotations

from hanse.runs.report.chart import Chart, Series, panels
from hanse.runs.report.data import ReportData
from hanse.runs.report.formats import MISSING, fixed, share, short
from hanse.runs.report.markup import Html, section, tag
from hanse.runs.report.reading import (
    OF_CLIENT,
    clients,
    grouped,
    late,
    numbered,
    part,
    points,
    values,
)
from hanse.runs.report.tables import table

_MOST_PANELS = 12

_INTRODUCTION = """Mean reward says how hard a client's problems are for the model now; the spread of rewards
within a group says how much there is to learn from them: with no spread there is no gradient."""


def client_signals(data: ReportData) -> Html:
    names = clients(data)
    rounds = numbered(data.rounds)
    charts = [_panel(name, data) for name in names[:_MOST_PANELS]]
    shown = panels(charts, max(0, len(names) - _MOST_PANELS)) if len(names) > 1 else Html()
    weights = _weights(data) if len(names) > 1 else Html()
    if not names or not rounds:
        return Html()
    intro = tag("p", " ".join(_INTRODUCTION.split()))
    return section("clients", "Clients", intro, shown, weights, _numbers(data, names))


def _panel(name: str, data: ReportData) -> Chart:
    rounds = numbered(data.rounds)
    lines = [
        Series("mean reward", points(rounds, f"{OF_CLIENT}{name}/reward"), 0),
        Series("spread within groups", points(rounds, f"{OF_CLIENT}{name}/reward_std"), "c1 dashed line"),
    ]
    return Chart(name, "reward and its spread by round", lines, small=True)


def _weights(data: ReportData) -> Html:
    """Weights and update norms as charts, where they aren't the same all along."""
    rounds, names = numbered(data.rounds), clients(data)[:_MOST_PANELS]
    charts = []
    for key, title, subject in (
        ("weight", "Weight in the average", "share by round"),
        ("update_norm", "Size of the update", "norm by round"),
    ):
        lines = [Series(name, points(rounds, f"{OF_CLIENT}{name}/{key}"), i) for i, name in enumerate(names)]
        moving = any(len({y for _, y in line.points}) > 1 for line in lines)
        charts += [Chart(title, subject, lines, small=True)] if moving else []
    return panels(charts)


def _numbers(data: ReportData, names: list[str]) -> Html:
    heads = ["client", "problems", "weight", "reward, first", "last", "spread, first", "last"]
    heads += ["groups without signal", "cut off", "update norm", "own mix before", "after"]
    problems = {str(row.get("client")): row.get("problems") for row in data.partition}
    steps = grouped(data.steps, lambda row: str(row.get("client")))
    evaluation = part(data.summary, "evaluation")
    own = [part(evaluation, when, "by_client") for when in ("initial", "final")]
    rows = []
    for name in names:
        mine = steps.get(name, [])
        rows.append(
            [
                name,
                fixed(problems.get(name), 0),
                _last(data, name, "weight", fixed),
                *_ends(data, name, "reward"),
                *_ends(data, name, "reward_std"),
                share(late(values(mine, "frac_reward_zero_std"))),
                share(late(values(mine, "completions/clipped_ratio"))),
                _last(data, name, "update_norm", short),
                *(fixed(accuracies.get(name)) for accuracies in own),
            ]
        )
    return table(_CAPTION, *_without_empty(heads, rows))


_CAPTION = """Signals by client. First and last round; groups without signal and cut-off completions over
the last quarter of its steps; own mix: held-out accuracy, levels weighted as in its own problems."""


def _without_empty(heads: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    kept = [i for i in range(len(heads)) if i == 0 or any(row[i] != MISSING for row in rows)]
    return [heads[i] for i in kept], [[row[i] for i in kept] for row in rows]


def _ends(data: ReportData, name: str, key: str) -> list[str]:
    found = points(numbered(data.rounds), f"{OF_CLIENT}{name}/{key}")
    return [fixed(found[0][1]), fixed(found[-1][1])] if found else [MISSING, MISSING]


def _last(data: ReportData, name: str, key: str, told: object) -> str:
    found = points(numbered(data.rounds), f"{OF_CLIENT}{name}/{key}")
    return (fixed if told is fixed else short)(found[-1][1] if found else None)
