"""Each client's signal: what its GRPO said about its problems, and how much it counted."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.runs.report.chart import Chart, Series, panels
from hanse.runs.report.data import ReportData
from hanse.runs.report.formats import MISSING, fixed, plural, share, short, whole
from hanse.runs.report.markup import Html, Section, section, tag
from hanse.runs.report.reading import OF_CLIENT, Points, clients, late, numbered, part, points, values
from hanse.runs.report.tables import arrow, table

_MOST_PANELS = 12

_PAIRS = """Of the pairs that a client trained on, the share whose preferred
completion got the higher reward."""
_INTRODUCTION = """Mean reward says how well a client's problems go; the spread of rewards within a group
says how much there is to learn from them: without any spread there is no gradient."""


_JUDGES = """Clients here score what the server samples. Mean reward is the mean of the scores that a client
gave. Groups without signal and cut-off completions are of its own model's training, where that trained."""


_INTRODUCTIONS = {"reward-model": _PAIRS, "reward-only": _JUDGES}


def client_signals(data: ReportData) -> Section:
    names = clients(data)
    if not names or not data.rounds:
        return section("clients", "Clients")
    left_out = len(names) - _MOST_PANELS
    more = f"{plural(left_out, 'more client')} in the table." if left_out > 0 else None
    return section(
        "clients",
        "Clients",
        tag("p", " ".join(_INTRODUCTIONS.get(data.mode, _INTRODUCTION).split())),
        _signals(data, names[:_MOST_PANELS]),
        _influence(data, names[:_MOST_PANELS]) if len(names) > 1 else None,
        tag("p", more, class_="quiet") if more else None,
        _numbers(data, names),
    )


def _metric(data: ReportData, name: str, key: str) -> Points:
    return points(numbered(data.rounds), f"{OF_CLIENT}{name}/{key}")


def _signals(data: ReportData, names: Sequence[str]) -> Html:
    """Reward and spread of each client, on one scale."""
    rewards = {name: _metric(data, name, "reward") for name in names}
    spreads = {name: _metric(data, name, "reward_std") for name in names}
    everything = [y for found in (*rewards.values(), *spreads.values()) for _, y in found]
    charts = []
    for name in names:
        lines = [
            Series(f"mean {data.judged}", rewards[name], 0),
            Series("spread within groups", spreads[name], "c1 dashed"),
        ]
        words = zip((data.judged, "spread"), lines, strict=True)
        latest = ", ".join(f"{word} {fixed(line.points[-1][1])}" for word, line in words if line.points)
        charts.append(Chart(name, latest, lines, small=True, also=everything, legend=False))
    return panels(charts)


def _influence(data: ReportData, names: Sequence[str]) -> Html:
    """Weights and update norms, where they are not the same all along."""
    charts = []
    for key, title, subject in (
        ("weight", "Weight in the average", "share by round"),
        ("update_norm", "Size of the update", "norm by round"),
    ):
        lines = [Series(name, _metric(data, name, key), slot) for slot, name in enumerate(names)]
        moving = any(len({y for _, y in line.points}) > 1 for line in lines)
        charts += [Chart(title, subject, lines, small=True, legend=False)] if moving else []
    return panels(charts)


_CAPTION = """Signals by client, from its first to its last round. No signal, cut off: shares of its groups
and completions over the last quarter of its steps. Own mix: held-out accuracy before and after, levels
weighted as in its own problems. Competence: the share of the server's auxiliary problems that it got
right; scored: candidates, in all. Refused, quarantined: in how many rounds its upload or reply was refused,
and in how many it was left out for that; no answer: in how many it was asked and not heard."""


def _numbers(data: ReportData, names: Sequence[str]) -> Html:
    heads = [
        "client",
        "problems",
        "competence",
        "scored",
        "weight",
        data.judged,
        "spread",
        "no signal",
        "cut off",
        "update norm",
        "own mix",
        "refused",
        "quarantined",
        "no answer",
    ]
    rows = [_row(data, name) for name in names]
    kept = [i for i in range(len(heads)) if i == 0 or any(row[i] != MISSING for row in rows)]
    return table(
        " ".join(_CAPTION.split()), [heads[i] for i in kept], [[row[i] for i in kept] for row in rows]
    )


def _row(data: ReportData, name: str) -> list[str]:
    problems = [row.get("problems") for row in data.partition if str(row.get("client")) == name]
    steps = [row for row in data.steps if str(row.get("client")) == name]
    own = [part(data.summary, "evaluation", when, "by_client").get(name) for when in ("initial", "final")]
    ends = {key: _ends(_metric(data, name, key)) for key in ("weight", "reward", "reward_std", "update_norm")}
    return [
        name,
        whole(problems[0] if problems else None),
        fixed(part(data.summary, "reward_only", "competence").get(name)),
        whole(sum(y for _, y in _metric(data, name, "scored")) or None),
        fixed(ends["weight"][1]),
        arrow(*ends["reward"]),
        arrow(*ends["reward_std"]),
        share(late(values(steps, "frac_reward_zero_std"))),
        share(late(values(steps, "completions/clipped_ratio"))),
        short(ends["update_norm"][1]),
        arrow(*own),
        _times(data, name, "refused"),
        _times(data, name, "quarantined"),
        _times(data, name, "silent"),
    ]


def _times(data: ReportData, name: str, key: str) -> str:
    """In how many rounds that happened to a client."""
    times = sum(f"{OF_CLIENT}{name}/{key}" in row for row in data.rounds)
    return whole(times) if times else MISSING


def _ends(found: Points) -> tuple[float | None, float | None]:
    return (found[0][1], found[-1][1]) if found else (None, None)
