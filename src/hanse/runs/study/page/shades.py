"""What a cell of a heat map says: its number and how strong its colour is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hanse.runs.report.formats import MISSING, fixed
from hanse.runs.report.markup import Html, escape, tag
from hanse.runs.study.outcome import spread
from hanse.runs.study.page.data import Arm
from hanse.runs.study.page.grid import Grid, Place, average, length_without_liars, summary_of

_REJECTS_FULL = 0.05


@dataclass(frozen=True)
class Shade:
    """A cell: its number, how strong its colour is from 0 to 1, what the pointer is told."""

    text: str
    share: float
    told: str = ""


Tell = Callable[[Arm, Place, str], Shade | None]
"""(arm, where it stands in the grid, its defence)."""


def cell(shade: Shade | None, bad: bool) -> Html:
    """`bad`: more is worse."""
    if shade is None:
        return escape(MISSING)
    style = f"--share:{100 * min(1.0, max(0.0, shade.share)):.0f}%"
    kind = "heat bad" if bad else "heat"
    return tag("span", shade.text, class_=kind, style=style, title=shade.told or None)


def success(*keys: str) -> Tell:
    def tell(arm: Arm, place: Place, column: str) -> Shade | None:
        value = average(arm, *keys)
        return None if value is None else Shade(f"{value:.0%}", value, spread(summary_of(arm, *keys)))

    return tell


def reward(arm: Arm, place: Place, column: str) -> Shade | None:
    value = average(arm, "honest_reward")
    return None if value is None else Shade(fixed(value, 2), value, spread(summary_of(arm, "honest_reward")))


def rejects(arm: Arm, place: Place, column: str) -> Shade | None:
    """Full colour from 5 % on."""
    value = average(arm, "honest_rejects")
    if value is None:
        return None
    return Shade(f"{value:.1%}", value / _REJECTS_FULL, spread(summary_of(arm, "honest_rejects"), 4))


def length(grid: Grid) -> Tell:
    """Full colour from twice the length on; tokens where there is nothing to compare with."""

    def tell(arm: Arm, place: Place, column: str) -> Shade | None:
        value, before = average(arm, "length"), length_without_liars(grid, place, column)
        if value is None:
            return None
        told = f"{spread(summary_of(arm, 'length'), 1)} tokens"
        if not before:
            return Shade(fixed(value, 1), 0.0, told)
        return Shade(
            f"{value / before:.2f}×", value / before - 1, f"{told}, {fixed(before, 1)} without liars"
        )

    return tell
