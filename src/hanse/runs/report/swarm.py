"""A swarm: what the liars reached, what honest nodes lost, and what the defences did about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hanse.runs.report.chart import Chart, Series, line_chart, panels
from hanse.runs.report.data import ReportData, Row
from hanse.runs.report.exchange import exchange
from hanse.runs.report.formats import fixed, known, share, short
from hanse.runs.report.markup import Html, Section, section, tag
from hanse.runs.report.reading import mean, numbered, part, points, settings, values
from hanse.runs.report.swarm_tables import defences, nodes
from hanse.runs.report.swarm_words import attack_of, defences_in_words, liars
from hanse.runs.report.tables import tiles

_LATE = 3
_RUN, _CONTROL = "this run", "no liars"

_SMALL = {
    "swarm/honest_reward": ("Honest reward", "mean of honest nodes", 1.0),
    "swarm/length": ("Length", "mean tokens of honest nodes", 0.0),
    "swarm/stop_rate": ("Stop rate", "share that ends by itself", 1.0),
    "swarm/honest_rejects": ("Honest rejects", "share of what honest nodes sent", 0.05),
    "swarm/attack_accepted": ("Lies accepted", "share of the rewarded ones", 1.0),
}
_ALONE = frozenset({"swarm/honest_rejects", "swarm/attack_accepted"})


def swarm(data: ReportData) -> Section:
    """Empty in other modes, and before the first round."""
    if data.mode != "swarm" or not any("swarm/honest_reward" in row for row in data.rounds):
        return section("swarm", "Swarm")
    return section(
        "swarm",
        "Swarm",
        tag("p", _introduction(data)),
        _figures(data),
        line_chart(_main(data)),
        panels([_small(data, key) for key in _SMALL]),
        defences(data),
        nodes(data),
        exchange(data),
    )


def _introduction(data: ReportData) -> str:
    document = settings(data)
    spec, lying = part(document, "swarm"), liars(document)
    chain = defences_in_words(document)
    text = f"A {spec.get('topology', 'horizontal')} swarm with {chain}."
    if lying:
        text += f" {', '.join(lying)} sent {attack_of(document)} instead of honest completions."
    text += " All figures here are of honest nodes, told by somebody who knows who lies."
    if data.control:
        text += " The control is the same swarm from the same seed, in which nobody lies."
    return text


def _figures(data: ReportData) -> Html:
    """Where it ended, beside where it would have ended without liars."""
    words = {
        "attack_success": ("Attack success", share),
        "honest_reward": ("Honest reward", fixed),
        "honest_rejects": ("Honest rejects", share),
        "attack_accepted": ("Lies accepted", share),
    }
    entries = []
    for key, (label, tell) in words.items():
        value, control = _end(data, key), _end_of_control(data, key)
        if value is None:
            continue
        beside = key not in ("honest_rejects", "attack_accepted") and control is not None
        entries.append((label, tell(value), f"{tell(control)} without liars" if beside else _about(key)))
    return tiles(entries)


def _about(key: str) -> str:
    return "all rounds" if key == "honest_rejects" else "last rounds"


def _end(data: ReportData, key: str) -> float | None:
    """As the summary has it, or the mean of the last rounds so far."""
    summary = part(data.summary, "swarm")
    return known(summary.get(key)) if summary else _late(data.rounds, key)


def _end_of_control(data: ReportData, key: str) -> float | None:
    summary: Any = part(data.summary, "swarm", "control")
    return known(summary.get(key)) if summary else _late(data.control, key)


def _late(rows: Sequence[Row], key: str) -> float | None:
    return mean(values(numbered(rows), f"swarm/{key}")[-_LATE:])


def _lines(data: ReportData, key: str) -> list[Series]:
    run = Series(_RUN, points(numbered(data.rounds), key), 0)
    if key in _ALONE or not data.control:
        return [run]
    return [run, Series(_CONTROL, points(numbered(data.control), key), "c1 dashed")]


def _main(data: ReportData) -> Chart:
    """What the attack is after; length where nothing is planted."""
    lines = _lines(data, "swarm/attack_success")
    if not lines[0].points:
        return Chart("Length", "mean tokens of honest nodes, by round", _lines(data, "swarm/length"))
    return Chart("Attack success", "share of honest completions that show it, by round", lines, also=(1.0,))


def _small(data: ReportData, key: str) -> Chart:
    title, subject, top = _SMALL[key]
    lines = _lines(data, key)
    found = lines[0].points
    latest = f"{subject}; last {short(found[-1][1])}" if found else subject
    return Chart(title, latest, lines, small=True, also=(top,), legend=False)
