"""Each arm's clients: how much they counted, what they signalled, how far they moved."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.runs.report.chart import COLOURS, Chart, Series, panels
from hanse.runs.report.markup import Html, Section, join, section, tag
from hanse.runs.report.reading import OF_CLIENT, Points, mean
from hanse.runs.study.page.data import Arm, StudyData

_COSINE = "federation/cosine/"
_METRICS = {
    "weight": ("Weight in the average", "share by round"),
    "reward_std": ("Spread of rewards within groups", "by round"),
    "update_norm": ("Size of the update", "norm by round"),
}
_MOST_CLIENTS = 16

Lines = list[Series]


def clients(data: StudyData) -> Section:
    arms = [arm for arm in data.arms if len(_names(arm)) > 1]
    names = list(dict.fromkeys(name for arm in arms for name in _names(arm)))[:_MOST_CLIENTS]
    body = [_metric(arms, names, key) for key in _METRICS]
    body.append(_row(arms, "Agreement of updates", "cosine by round", [_cosines(arm) for arm in arms]))
    told = tag("p", "Means over the runs of an arm, all arms on one scale.") if any(body) else None
    return section("clients", "Clients", told, *body)


def _names(arm: Arm) -> list[str]:
    return [
        key.removeprefix(OF_CLIENT).rpartition("/")[0]
        for key in arm.metrics
        if key.startswith(OF_CLIENT) and key.endswith("/weight")
    ]


def _metric(arms: Sequence[Arm], names: Sequence[str], key: str) -> Html:
    lines = [
        [Series(name, arm.mean(f"{OF_CLIENT}{name}/{key}"), i) for i, name in enumerate(names)]
        for arm in arms
    ]
    return _row(arms, *_METRICS[key], lines)


def _row(arms: Sequence[Arm], title: str, subject: str, lines: Sequence[Lines]) -> Html:
    """A small chart an arm; nothing where no arm has the metric."""
    everything = [y for mine in lines for series in mine for _, y in series.points]
    if not everything:
        return Html()
    charts = [
        Chart(arm.label, subject, mine, small=True, also=everything, legend=False)
        for arm, mine in zip(arms, lines, strict=True)
    ]
    return join(tag("h3", title), panels(charts))


def _cosines(arm: Arm) -> Lines:
    """A line a pair of clients; where those are many, their mean stands out."""
    keys = [key for key in arm.metrics if key.startswith(_COSINE)]
    found = {key.removeprefix(_COSINE).replace("/", " · "): arm.mean(key) for key in keys}
    if len(found) <= COLOURS:
        return [Series(name, points, i) for i, (name, points) in enumerate(found.items())]
    return [
        Series("mean of pairs", _mean_line(list(found.values()))),
        *(Series(name, points, "faint") for name, points in found.items()),
    ]


def _mean_line(lines: Sequence[Points]) -> Points:
    rounds = sorted({number for line in lines for number, _ in line})
    averages = ((number, mean([y for line in lines for x, y in line if x == number])) for number in rounds)
    return [(number, value) for number, value in averages if value is not None]
