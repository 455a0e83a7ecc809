"""What a reader wants first: which arm is better, by how much, and who pays for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hanse.runs.report.formats import MISSING, fixed, known, plural, signed, size
from hanse.runs.report.markup import Html, Section, escape, section, tag
from hanse.runs.report.reading import name_level
from hanse.runs.report.tables import change, table
from hanse.runs.study.document import failures
from hanse.runs.study.outcome import interval_of, spread
from hanse.runs.study.page.data import Arm, StudyData

_BAR = 150


def header(data: StudyData) -> Html:
    failed = failures(data.document)
    missing = sum(arm.told["planned"] - len(arm.told["runs"]) for arm in data.arms)
    states = [f"{plural(len(failed), 'run')} failed. {failed[0]}"] if failed else []
    states += [f"Not complete: {plural(missing, 'run')} of the plan missing."] if missing else []
    return tag(
        "header",
        tag("p", "Hanse · study", class_="eyebrow"),
        tag("h1", data.document["name"]),
        tag("p", _lead(data), class_="lead"),
        *(tag("p", state, class_="state") for state in states),
    )


def _lead(data: StudyData) -> str:
    seeds, starts = data.document["seeds"], data.document["starts"]
    crossed = f" × {plural(len(starts), 'start')}" if starts else ""
    return f"{plural(len(data.arms), 'arm')}, each on {plural(len(seeds), 'seed')}{crossed}."


_INTRODUCTION = """Accuracy on held-out problems after training, mean over levels; ± is the standard deviation
over runs. Differences are paired: both arms of a pair have the same seed{start}. Intervals hold 95 %
(Student's t over the pairs); a difference is coloured where its intervals exclude zero."""


def result(data: StudyData) -> Section:
    told = _INTRODUCTION.format(start=" and start" if data.document["starts"] else "")
    columns: dict[str, Sequence[str]] = {
        "accuracy": [spread(arm.told) for arm in data.arms],
        "difference": [moved(arm.told["difference"]) for arm in data.arms],
        "95 % interval": [_baseline_or(interval_of, arm.told["difference"]) for arm in data.arms],
        "greedy": [spread(arm.told["accuracy_greedy"]) for arm in data.arms],
        "worst level": [spread(arm.told["worst_level"]) for arm in data.arms],
        "solved": [spread(arm.told["solved"]) for arm in data.arms],
        "up a run": [_size(arm.told["bytes"]["up"]) for arm in data.arms],
        "compression": [_times(arm.told["compression"]) for arm in data.arms],
        "published": [_published(arm.told["published"]) for arm in data.arms],
    }
    return section(
        "result", "Result", tag("p", " ".join(told.split())), _table(data, columns), _against(data)
    )


def _table(data: StudyData, columns: Mapping[str, Sequence[str]]) -> Html:
    """Columns in which some arm has a value."""
    kept = {
        head: cells for head, cells in columns.items() if any(cell not in ("", MISSING) for cell in cells)
    }
    rows = [[arm.label, *(cells[i] for cells in kept.values())] for i, arm in enumerate(data.arms)]
    return table(f"Arms; differences to {data.baseline}", ["arm", *kept], rows)


def _against(data: StudyData) -> Html:
    """The differences to the baseline as a picture, with what is more cautious than the t-interval."""
    others = [(arm.label, arm.told["difference"]) for arm in data.arms if arm.told["difference"] is not None]
    return _comparisons(f"Against {data.baseline}", "arm", others, [])


def _baseline_or(tell: Callable[[Mapping[str, Any]], str], difference: Mapping[str, Any] | None) -> str:
    return "" if difference is None else tell(difference)


def moved(difference: Mapping[str, Any] | None) -> Html:
    if difference is None:
        return tag("span", "baseline", class_="quiet")
    mean = known(difference["mean"])
    return change(mean if _clear(difference) else None, signed(mean))


def _clear(difference: Mapping[str, Any]) -> bool:
    """Whether every interval excludes zero."""
    found = [part["interval"] for part in (difference, difference.get("bootstrap")) if part]
    return bool(found) and all(interval and interval[0] * interval[1] > 0 for interval in found)


def _size(count: Any) -> str:
    return size(count) if known(count) else MISSING


def _times(factor: Any) -> str:
    return MISSING if known(factor) is None else f"{factor:.1f}×"


def _published(value: Any) -> str:
    return MISSING if known(value) is None else f"{value:g}"


def _scale(differences: Sequence[Mapping[str, Any] | None]) -> float:
    """The largest distance from zero."""
    ends = [
        abs(end)
        for d in differences
        if d is not None
        for end in d["interval"] or [d["mean"]]
        if end is not None
    ]
    return max(ends, default=0.0) or 1.0


def forest(difference: Mapping[str, Any] | None, scale: float) -> Html:
    """A dot with its interval, zero in the middle; all rows have one scale."""
    if difference is None or difference["mean"] is None:
        return Html()
    middle = _BAR / 2

    def place(value: float) -> float:
        return middle + (middle - 7) * value / scale

    interval = difference["interval"]
    drawn = f"M{place(interval[0]):.1f} 8H{place(interval[1]):.1f}" if interval else ""
    return tag(
        "svg",
        tag("path", d=f"M{middle:.1f} 0V16", class_="track"),
        tag("path", d=drawn, class_="span") if drawn else None,
        tag("circle", cx=place(difference["mean"]), cy=8, r=4, class_="full"),
        viewBox=f"0 0 {_BAR} 16",
        style=f"width:{_BAR}px;height:16px;display:block",
        role="img",
        aria_label=f"{signed(difference['mean'])}, {interval_of(difference)}",
    )


_CONTRASTS = """The first arm minus the second, paired. The lower bound holds with 95 % one-sided. p is
two-sided against no difference; Holm's correction is for all rows together."""


def contrasts(data: StudyData) -> Section:
    found = data.document["contrasts"]
    told = tag("p", " ".join(_CONTRASTS.split())) if found else None
    p_values = [[p_value(contrast["p"]), p_value(contrast["p_holm"])] for contrast in found]
    pairs = [(contrast["name"], contrast) for contrast in found]
    return section(
        "contrasts", "Contrasts", told, _comparisons("Planned comparisons", "contrast", pairs, p_values)
    )


def _comparisons(
    caption: str, head: str, pairs: Sequence[tuple[str, Mapping[str, Any]]], more: Sequence[Sequence[str]]
) -> Html:
    """Differences, each with its intervals as numbers and as a picture on one scale."""
    resampled = any(difference["bootstrap"] for _, difference in pairs)
    scale = _scale([difference for _, difference in pairs])
    heads = [head, "pairs", "difference", "95 % interval", *(["bootstrap"] if resampled else [])]
    heads += ["around zero", "lower bound", *(["p", "p (Holm)"] if more else [])]
    rows = [
        [
            name,
            str(difference["n"]),
            moved(difference),
            interval_of(difference),
            *([interval_of(difference["bootstrap"] or {})] if resampled else []),
            forest(difference, scale),
            signed(difference["lower_bound"]),
            *(more[i] if more else []),
        ]
        for i, (name, difference) in enumerate(pairs)
    ]
    note = "; bootstrap: seeds and starts drawn anew" if resampled else ""
    return table(f"{caption}{note}", heads, rows)


def p_value(p: Any) -> str:
    number = known(p)
    if number is None:
        return MISSING
    return "< 0.001" if number < 0.001 else fixed(number)


def levels(data: StudyData) -> Section:
    """A mean hides who pays."""
    names = list(dict.fromkeys(level for arm in data.arms for level in arm.told["by_level"]))
    if len(names) < 2:
        return section("levels", "Levels")
    base = next((arm for arm in data.arms if arm.name == data.document["baseline"]), None)
    rows = [
        [
            arm.label,
            *(_cell(arm, base, name) for name in names),
            fixed(arm.told["mean"]),
            fixed(arm.told["by_sample"]["mean"]),
        ]
        for arm in data.arms
    ]
    heads = ["arm", *map(name_level, names), "mean", "by sample"]
    caption = (
        f"Held-out accuracy by level, mean over runs, and what it is more or less than {data.baseline}; "
    )
    caption += "shading from 0 to 1. By sample: levels weighted by their training problems."
    return section("levels", "Accuracy by level", table(caption, heads, rows))


def _cell(arm: Arm, base: Arm | None, level: str) -> Html:
    mean = _level_mean(arm, level)
    if mean is None:
        return escape(MISSING)
    before = None if base is None or base is arm else _level_mean(base, level)
    more = "" if before is None else f" {signed(mean - before)}"
    told = spread(arm.told["by_level"][level])
    share = f"--share:{100 * mean:.0f}%"
    return tag("span", fixed(mean), tag("span", more, class_="quiet"), class_="heat", style=share, title=told)


def _level_mean(arm: Arm, level: str) -> float | None:
    return known((arm.told["by_level"].get(level) or {}).get("mean"))
