"""Before and after in a few lines: for terminals, logs and model cards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hanse.runs.report.formats import difference, fixed, number, plural, size
from hanse.runs.report.reading import name_level, part

HEADS = ("Held-out accuracy", "before", "after", "change")

_MOST_LEVELS = 12


def outcome(summary: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Label, before, after, change: sampled, greedy, and each level unless there are too many to list."""
    before, after = part(summary, "evaluation", "initial"), part(summary, "evaluation", "final")
    first_word, second_word = accuracy_words(str(summary.get("mode")))
    rows = [_row(first_word, before, after, "accuracy"), _row(second_word, before, after, "accuracy_greedy")]
    first, last = part(before, "by_level"), part(after, "by_level")
    if not 1 < len(last) <= _MOST_LEVELS:
        return rows
    return rows + [_row(f"{name_level(name)}, {first_word}", first, last, name) for name in last]


def accuracy_words(mode: str) -> tuple[str, str]:
    """What `accuracy` and `accuracy_greedy` are: of a reward model, after a client's own steps and before."""
    return ("adapted", "as it is") if mode == "reward-model" else ("sampled", "greedy")


def _row(
    label: str, before: Mapping[str, Any], after: Mapping[str, Any], key: str
) -> tuple[str, str, str, str]:
    moved = difference(before.get(key), after.get(key))
    change = "·" if moved is None else f"{moved:+.3f}"
    return label, number(before.get(key)), number(after.get(key)), change


def remarks(summary: Mapping[str, Any], folder: Path) -> list[str]:
    """What a person should know besides accuracy, and where to read on."""
    total, warnings = part(summary, "bytes"), summary.get("warnings")
    up, down = total.get("up"), total.get("down")
    lines = [f"Exchanged: {size(up)} up, {size(down)} down."] if up or down else []
    lines += swarm_remarks(summary)
    lines += [f"Stopped early: {summary['stopped']}."] if summary.get("stopped") else []
    lines += (
        [f"{plural(len(warnings), 'warning')}: see the report."]
        if isinstance(warnings, list) and warnings
        else []
    )
    return [*lines, f"Report: {folder / 'report.html'}"]


def swarm_remarks(summary: Mapping[str, Any]) -> list[str]:
    """What liars reached and what honest nodes paid, beside the control where there is one."""
    told = part(summary, "swarm")
    control = part(told, "control")
    words = {
        "attack_success": "attack success",
        "honest_reward": "honest reward",
        "honest_rejects": "honest rejects",
    }
    if told.get("attack_success") is None:
        words["length"] = "mean length"
    found = [
        _beside(word, told.get(key), control.get(key))
        for key, word in words.items()
        if told.get(key) is not None
    ]
    return [f"Swarm: {', '.join(found)}."] if found else []


def _beside(word: str, value: Any, control: Any) -> str:
    digits = 1 if word == "mean length" else 3
    beside = "" if control is None else f" ({fixed(control, digits)} without liars)"
    return f"{word} {fixed(value, digits)}{beside}"
