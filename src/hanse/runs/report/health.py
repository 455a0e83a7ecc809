"""What went wrong or might have, stated plainly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hanse.runs.report.chart import Chart, Series, panels
from hanse.runs.report.data import ReportData
from hanse.runs.report.formats import difference, fixed, known, plural, share
from hanse.runs.report.markup import Html, Section, section, tag
from hanse.runs.report.reading import (
    OF_CLIENT,
    clients,
    late,
    levels,
    name_level,
    numbered,
    part,
    points,
    values,
)

FINE, NOTE, TROUBLE = "fine", "note", "trouble"
Finding = tuple[str, str]

_COUNTERS = {
    "unscored": ("completion", "not scored: the reward function failed, hung or returned nothing"),
    "refused_uploads": ("upload", "refused and left out of the average"),
    "failed_replies": ("answer", "without an upload in it, and left out"),
    "late_replies": ("answer", "too late for its round"),
    "late_weighed": ("upload", "weighed in a later round than its own"),
    "late_discarded": ("late upload", "discarded: too old, or older than another of its client"),
    "late_lost": ("late upload", "on its way, or waiting, when the run stopped, and is lost"),
    "refused_replies": ("reply", "of clients refused or missing, and left out of the mean of scores"),
    "refused_bundles": ("bundle", "refused, in whole or in part: it was not well-formed"),
    "non_finite_steps": ("update", "not applied, as the gradient was not finite"),
    "oom_halvings": ("time", "memory ran out and the batch was halved"),
    "skipped_steps": ("update", "skipped, as no group had anything to learn from"),
}
_NONE_OF = {
    "unscored": "Every completion was scored.",
    "refused_uploads": "No upload was refused.",
    "refused_replies": "No client's scores were refused.",
    "refused_bundles": "No node's bundle was refused.",
    "non_finite_steps": "Every gradient was finite.",
}
_MOST_REFUSALS = 20
_MOST_SILENT = 10
_SERIOUS = frozenset({"non_finite_steps", "refused_uploads"})


def health(data: ReportData) -> Section:
    checks = (_warnings, _counters, _reward_errors, _refusals, _signal, _truncation, _entropy, _lost)
    findings = [finding for check in checks for finding in check(data)]
    order = {TROUBLE: 0, NOTE: 1, FINE: 2}
    items = [
        tag("li", tag("span", kind, class_=f"badge {kind}"), " ", tag("span", text))
        for kind, text in sorted(findings, key=lambda finding: order[finding[0]])
    ]
    return section("health", "Health", tag("ul", *items, class_="health") if items else None, _charts(data))


def _warnings(data: ReportData) -> list[Finding]:
    told, silent = data.summary.get("warnings"), _silent(data)
    found = [*told, *silent] if isinstance(told, list | tuple) else silent
    fine = [] if told is None else [(FINE, "No warnings.")]
    return [(TROUBLE, f"Warning: {text}") for text in found] or fine


def _silent(data: ReportData) -> list[str]:
    """Clients that gave no answer, and in how many rounds; those that were silent most come first."""
    rounds = [row for row in numbered(data.rounds) if row["round"] > 0]
    counts = {name: sum(f"{OF_CLIENT}{name}/silent" in row for row in rounds) for name in clients(data)}
    order = sorted((name for name in counts if counts[name]), key=lambda name: -counts[name])
    found = [
        f"client {name} gave no answer in {counts[name]} of {plural(len(rounds), 'round')}: it was away, "
        "failed, or was too slow for runtime.deadline_s."
        for name in order[:_MOST_SILENT]
    ]
    left = len(order) - len(found)
    return [*found, f"{plural(left, 'more client')} gave no answer at times."] if left else found


def _counters(data: ReportData) -> list[Finding]:
    counters = part(data.summary, "counters")
    findings = [_counted(str(name), known(count)) for name, count in counters.items()]
    return [finding for finding in findings if finding is not None]


def _counted(name: str, count: float | None) -> Finding | None:
    if count is None:
        return None
    if count == 0:
        return (FINE, _NONE_OF[name]) if name in _NONE_OF else None
    kind = TROUBLE if name in _SERIOUS else NOTE
    if name not in _COUNTERS:
        return kind, f"{name}: {count:g}."
    what, happened = _COUNTERS[name]
    return kind, f"{plural(round(count), what)} {happened}."


def _reward_errors(data: ReportData) -> list[Finding]:
    """What reward functions failed with in training."""
    counts = {text: known(count) for text, count in part(data.summary, "reward_errors").items()}
    return [
        (NOTE, f"A reward function failed on {plural(round(count), 'completion')}: {text}")
        for text, count in counts.items()
        if count is not None
    ]


def _refusals(data: ReportData) -> list[Finding]:
    """Refused uploads with their reasons, as the round rows name them."""
    what = "reply" if data.mode == "reward-only" else "upload"
    found = [
        f"Round {row['round']:g}: the {what} of {name.removeprefix(OF_CLIENT)} was refused: {reason}"
        for row in numbered(data.rounds)
        for key, reason in row.items()
        if key.startswith(OF_CLIENT) and isinstance(reason, str)
        for name, metric in [key.rsplit("/", 1)]
        if metric == "refused"
    ]
    more = [f"{len(found) - _MOST_REFUSALS} more were refused."] if len(found) > _MOST_REFUSALS else []
    return [(NOTE, text) for text in [*found[:_MOST_REFUSALS], *more]]


def _signal(data: ReportData) -> list[Finding]:
    portion = late(values(numbered(data.rounds), "frac_reward_zero_std"))
    if portion is None:
        return []
    text = f"In {share(portion)} of the groups all rewards were equal (last quarter of the rounds)"
    if portion >= 0.9:
        return [(TROUBLE, f"{text}: hardly anything is learnt. Too easy, too hard, or too few samples.")]
    if portion >= 0.5:
        return [(NOTE, f"{text}: these taught nothing. More samples a group or other problems would help.")]
    return [(FINE, f"{text}; the others had something to learn from.")]


def _truncation(data: ReportData) -> list[Finding]:
    portion = late(values(numbered(data.rounds), "completions/clipped_ratio"))
    if portion is None:
        return []
    text = f"Cut off at grpo.max_new_tokens: {share(portion)} of the completions (last quarter of the rounds)"
    if portion >= 0.2:
        return [(TROUBLE if portion >= 0.9 else NOTE, f"{text}. Raise it, or ask for shorter answers.")]
    return [(FINE, f"{text}.")]


def _entropy(data: ReportData) -> list[Finding]:
    found = values(numbered(data.rounds), "entropy")
    if len(found) < 2 or found[0] <= 0 or found[-1] > found[0] / 20:
        return []
    text = f"Entropy fell from {fixed(found[0])} to {fixed(found[-1])}: completions hardly differ any more."
    return [(NOTE, text)]


def _lost(data: ReportData) -> list[Finding]:
    """Held-out accuracy that went down, which a mean would hide."""
    evaluation = part(data.summary, "evaluation")
    before, after = part(evaluation, "initial"), part(evaluation, "final")
    if not before or not after:
        return []
    losses = [*_losses(data, before, after, "by_level", ""), *_losses(data, before, after, GREEDY, " greedy")]
    if losses:
        return [(NOTE, f"Held-out accuracy went down: {', '.join(losses)}.")]
    return [(FINE, "Held-out accuracy went down on no level.")]


GREEDY = "by_level_greedy"


def _losses(
    data: ReportData, before: Mapping[str, Any], after: Mapping[str, Any], key: str, how: str
) -> list[str]:
    first, last = part(before, key), part(after, key)
    moved = {name: difference(first.get(name), last.get(name)) for name in levels(data)}
    return [f"{name_level(n)}{how} by {fixed(-d)}" for n, d in moved.items() if d is not None and d < -5e-4]


def _charts(data: ReportData) -> Html:
    rounds = numbered(data.rounds)
    wanted = {
        "frac_reward_zero_std": ("Groups without signal", "share by round"),
        "completions/clipped_ratio": ("Cut-off completions", "share by round"),
        "unscored": ("Unscored completions", "count by round"),
    }
    shown = {key: points(rounds, key) for key in wanted}
    return panels(
        [
            Chart(
                *wanted[key],
                [Series(wanted[key][0], found)],
                small=True,
                also=() if key == "unscored" else (0.1,),
            )
            for key, found in shown.items()
            if any(y for _, y in found)
        ]
    )
