"""What a reader wants first: did it get better, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hanse.runs.report.data import ReportData
from hanse.runs.report.formats import MISSING, difference, duration, fixed, known, plural, signed, size
from hanse.runs.report.markup import Html, Section, escape, section, tag
from hanse.runs.report.outcome import accuracy_words
from hanse.runs.report.reading import BY_LEVEL, clients, levels, name_level, numbered, part, points, settings
from hanse.runs.report.swarm_words import who_exchanged
from hanse.runs.report.tables import arrow, change, table, tiles

_BAR = 120
BY, GREEDY = "by_level", "by_level_greedy"


def header(data: ReportData) -> Html:
    warnings = data.summary.get("warnings")
    several = plural(len(warnings), "warning") if isinstance(warnings, list) and warnings else None
    states = [
        tag("p", _stopped(data), class_="state") if data.summary.get("stopped") else None,
        tag("p", tag("a", several, href="#health"), class_="state") if several else None,
    ]
    return tag(
        "header",
        tag("p", "Hanse · training report", class_="eyebrow"),
        tag("h1", data.name),
        tag("p", _who(data), class_="lead"),
        *states,
    )


def _stopped(data: ReportData) -> str:
    reason = str(data.summary["stopped"])
    ended = part(data.summary, "evaluation", "final")
    return f"Stopped early: {reason}." if ended else f"{reason[:1].upper()}{reason[1:]}."


def _who(data: ReportData) -> str:
    many = len(clients(data))
    if not many and data.mode != "swarm":
        return f"Mode {data.mode}; no client has reported yet."
    told = {
        "federated": f"{plural(many, 'client')} trained one model together by GRPO",
        "central": "One learner trained on everybody's problems by GRPO",
        "local": f"{plural(many, 'client')} each trained a model of their own by GRPO",
        "swarm": who_exchanged(settings(data)),
        "reward-only": "The server trained by GRPO on scores of its clients",
        "reward-model": f"{plural(many, 'client')} trained a reward model on their preferences",
    }
    rounds = known(data.summary.get("rounds"))
    seconds = known(data.summary.get("seconds"))
    took = "" if rounds is None else f": {plural(round(rounds), 'round')}"
    took += "" if seconds is None else f" in {duration(seconds)}"
    return told.get(data.mode, f"GRPO, mode {data.mode}") + took + "."


def result(data: ReportData) -> Section:
    evaluation = part(data.summary, "evaluation")
    before, after = part(evaluation, "initial"), part(evaluation, "final")
    if not before and not after:
        return section("result", "Result", tag("p", "Nothing was evaluated on held-out problems yet."))
    return section("result", "Result", _figures(data, before, after), _by_level(data, before, after))


def _figures(data: ReportData, before: Mapping[str, Any], after: Mapping[str, Any]) -> Html:
    average = "mean over levels" if len(levels(data)) > 1 else "held-out problems"
    first, second = accuracy_words(data.mode)
    names = {
        "accuracy": (f"Accuracy, {first}", average),
        "accuracy_greedy": (f"Accuracy, {second}", average),
        "worst_level": (f"Worst level, {first}", ""),
    }
    entries = [
        (label, arrow(before.get(key), after.get(key)), _remark(before.get(key), after.get(key), remark))
        for key, (label, remark) in names.items()
        if known(before.get(key)) is not None or known(after.get(key)) is not None
    ]
    return tiles([*entries, *_validation(data, bool(after)), *_traffic(data), *_time(data)])


def _remark(before: Any, after: Any, about: str) -> Html:
    moved = difference(before, after)
    if moved is None:
        return tag("span", "after training only" if known(before) is None else "before training")
    return tag("span", change(moved, signed(moved)), f" · {about}" if about else None)


def _validation(data: ReportData, ended: bool) -> list[tuple[str, str, str]]:
    best = part(data.summary, "best")
    if known(best.get("validation_accuracy")) is not None:
        where = f"round {fixed(best.get('round'), 0)}, kept in policy-best/"
        return [("Best validation", fixed(best.get("validation_accuracy")), where)]
    latest = points(numbered(data.rounds), "evaluation/accuracy")
    if ended or not latest:
        return []
    return [("Latest validation", fixed(latest[-1][1]), f"round {latest[-1][0]:g}")]


def _traffic(data: ReportData) -> list[tuple[str, str, str]]:
    total = part(data.summary, "bytes")
    up, down = known(total.get("up")), known(total.get("down"))
    if not up and not down:
        return []
    return [("Exchanged", size((up or 0) + (down or 0)), f"{size(up)} up, {size(down)} down")]


def _time(data: ReportData) -> list[tuple[str, str, str]]:
    seconds, warmup = known(data.summary.get("seconds")), known(data.summary.get("seconds_warmup"))
    if seconds is None:
        return []
    return [("Time", duration(seconds), f"after {duration(warmup)} of preparation" if warmup else "")]


def _by_level(data: ReportData, before: Mapping[str, Any], after: Mapping[str, Any]) -> Html:
    rows = [
        _row(name_level(name), *(part(e, k).get(name) for k in (BY, GREEDY) for e in (before, after)))
        for name in levels(data)
        if any(name in part(e, k) for k in (BY, GREEDY) for e in (before, after))
    ]
    names = ("accuracy", "accuracy_greedy")
    if len(rows) > 1:
        rows.append(_row("mean over levels", *(e.get(k) for k in names for e in (before, after))))
    if known(after.get("accuracy_by_sample")) is not None:
        weighted = (before.get("accuracy_by_sample"), after.get("accuracy_by_sample"), None, None)
        rows.append(_row("weighted by training problems", *weighted))
    heads = ["level", "from 0 to 1", *("before", "after", "change") * 2]
    first, second = accuracy_words(data.mode)
    return table(_caption(data), heads, rows, texts=2, groups=[("", 1), (first, 4), (second, 3)])


def _caption(data: ReportData) -> str:
    spec = part(settings(data), "evaluation")
    problems, samples = spec.get("final_problems_per_level"), spec.get("final_samples")
    each = ""
    if known(problems) is not None and known(samples) is not None:
        each = f": up to {problems} problems a level, {samples} samples each, and one greedy completion"
    if data.mode == "reward-model":
        each = f": up to {problems} pairs a level, after a client's own local steps and before them"
    rule = part(settings(data), "federation").get("aggregation")
    own = data.mode == "local" or (data.mode == "federated" and rule == "fedsa")
    whose = " Each client has its own model: the mean over models." if own else ""
    swarm = part(settings(data), "swarm")
    if data.mode == "swarm" and (swarm.get("policies") or known(swarm.get("external")) is not None):
        whose = " Nodes have policies of their own: the mean over honest ones."
    return f"Accuracy on held-out problems, which nobody trained on{each}.{whose}"


def _row(label: str, before: Any, after: Any, greedy_before: Any, greedy_after: Any) -> list[str]:
    cells = [label, dumbbell(before, after)]
    for first, last in ((before, after), (greedy_before, greedy_after)):
        moved = difference(first, last)
        cells += [fixed(first), fixed(last), change(moved, signed(moved))]
    return cells


def dumbbell(before: Any, after: Any) -> Html:
    """From a hollow dot (before) to a full one (after), for shares."""
    first, last = known(before), known(after)
    if first is None or last is None or not (0 <= first <= 1 and 0 <= last <= 1):
        return escape(MISSING)
    start, end = 6 + first * (_BAR - 12), 6 + last * (_BAR - 12)
    return tag(
        "svg",
        tag("path", d=f"M6 8H{_BAR - 6}", class_="track"),
        tag("path", d=f"M{start:.1f} 8H{end:.1f}", class_="span"),
        tag("circle", cx=start, cy=8, r=4, class_="hollow"),
        tag("circle", cx=end, cy=8, r=4.5, class_="full"),
        class_="dumbbell",
        viewBox=f"0 0 {_BAR} 16",
        role="img",
        aria_label=f"from {fixed(first)} to {fixed(last)}",
    )


def level_series(data: ReportData) -> list[tuple[str, str]]:
    """(name, metric) of each level in round rows."""
    return [(name_level(name), BY_LEVEL + name) for name in levels(data)]
