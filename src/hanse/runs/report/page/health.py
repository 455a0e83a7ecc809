"""What a person should know before trusting the numbers, in plain words."""

from __future__ import annotations

from dataclasses import dataclass

from hanse.runs.report.data import ReportData
from hanse.runs.report.page.charts import Axes, Series, small_chart
from hanse.runs.report.page.curves import share
from hanse.runs.report.page.markup import Html, el
from hanse.runs.report.page.numbers import count, finite, plain, plural
from hanse.runs.report.page.reading import mean, points, refusals, section, total, values
from hanse.runs.report.page.tables import section as part

_STATES = {"ok": "fine", "look": "look", "bad": "problem"}
_COUNTERS = {
    "skipped_steps": "updates skipped, because no group of the batch carried a signal",
    "non_finite_steps": "updates dropped, because their gradient was not finite",
    "oom_halvings": "times memory ran out and the batch was halved",
}
_CURVES = (
    ("frac_reward_zero_std", "Groups without signal", share),
    ("completions/clipped_ratio", "Completions cut off", share),
    ("completions/mean_length", "Mean length, tokens", plain),
    ("entropy", "Entropy, nats a token", plain),
    ("grad_norm", "Gradient norm", plain),
    ("policy_grad_signal", "Mean absolute advantage", plain),
    ("kl", "KL to the reference", plain),
)


@dataclass(frozen=True)
class Finding:
    state: str
    title: str
    words: str


def health(data: ReportData) -> Html:
    found = [*_warnings(data), _unscored(data), _flat(data), _cut(data), *_refused(data), *_counters(data)]
    items = [
        el(
            "li",
            el("span", _STATES[one.state], class_=f"badge {one.state}"),
            el("p", el("strong", one.title), " ", one.words),
        )
        for one in found
    ]
    return part("health", "Health", el("ul", *items, class_="findings"), _charts(data))


def _warnings(data: ReportData) -> list[Finding]:
    warnings = data.summary.get("warnings") or []
    if not warnings:
        return [Finding("ok", "Warnings.", "None.")]
    return [Finding("look", "Warning.", str(warning)) for warning in warnings]


def _unscored(data: ReportData) -> Finding:
    trained = section(data, "counters").get("unscored", total(data.rounds, "unscored"))
    held = [section(data, "evaluation", when).get("unscored") for when in ("initial", "final")]
    tested = sum(finite(value) or 0 for value in held)
    if not (finite(trained) or 0) + tested:
        return Finding("ok", "Unscored completions.", "None.")
    where = f"{count(finite(trained) or 0)} in training, {count(tested)} in held-out evaluation"
    return Finding(
        "look", "Unscored completions.", f"{where}: their reward function failed; they count nowhere."
    )


def _flat(data: ReportData) -> Finding:
    shares = values(data.rounds, "frac_reward_zero_std")
    average = mean(shares)
    if average is None:
        return Finding("ok", "Groups without signal.", "No training step yet.")
    words = (
        f"{share(average)} over the run, {share(shares[-1])} in the last round: all their rewards were equal."
    )
    state = "bad" if average >= 0.95 else "look" if average > 0.6 else "ok"
    return Finding(state, "Groups without signal.", words)


def _cut(data: ReportData) -> Finding:
    shares = values(data.rounds, "completions/clipped_ratio")
    average = mean(shares)
    if average is None:
        return Finding("ok", "Truncation.", "No training step yet.")
    words = f"{share(average)} of completions hit grpo.max_new_tokens, {share(shares[-1])} in the last round."
    state = "bad" if average >= 0.95 else "look" if average > 0.1 else "ok"
    return Finding(state, "Truncation.", words)


def _refused(data: ReportData) -> list[Finding]:
    seen: dict[tuple[str, str], list[str]] = {}
    for at, client, reason in refusals(data):
        seen.setdefault((client, reason), []).append(plain(at))
    known = finite(section(data, "counters").get("refused_uploads")) or 0
    if not seen and not known:
        return [Finding("ok", "Refused uploads.", "None.")]
    if not seen:
        return [Finding("look", "Refused uploads.", f"{count(known)}.")]
    return [
        Finding(
            "look",
            "Refused uploads.",
            f"{client}, {plural(len(at), 'round')} ({', '.join(at[:12])}): {reason}",
        )
        for (client, reason), at in seen.items()
    ]


def _counters(data: ReportData) -> list[Finding]:
    others = {
        str(name): finite(value)
        for name, value in section(data, "counters").items()
        if name not in ("unscored", "refused_uploads")
    }
    return [
        Finding("look", f"{count(value)}", f"{_COUNTERS.get(name, name.replace('_', ' '))}.")
        for name, value in others.items()
        if value
    ]


def _charts(data: ReportData) -> Html | None:
    series = [(title, points(data.rounds, key), write) for key, title, write in _CURVES]
    figures = [
        el(
            "figure",
            el("figcaption", title),
            small_chart([Series(title, line, 0)], Axes(title, title, write)),
        )
        for title, line, write in series
        if line
    ]
    return el("div", *figures, class_="multiples") if figures else None
