"""Heat maps of a grid of arms: the number stands in its cell, so that colour is not all there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hanse.runs.report.formats import MISSING, fixed
from hanse.runs.report.markup import Html, escape, tag
from hanse.runs.report.tables import table
from hanse.runs.study.outcome import spread
from hanse.runs.study.page.data import Arm
from hanse.runs.study.page.grid import Grid, Place, average, honest, length_without_liars, summary_of
from hanse.runs.study.swarm import AT

_REJECTS_FULL = 0.05


@dataclass(frozen=True)
class Shade:
    """A cell: its number, how dark it is from 0 to 1, what the pointer is told."""

    text: str
    share: float
    told: str = ""


Tell = Callable[[Arm, Place, str], Shade | None]


def maps(grid: Grid, interest: Sequence[str]) -> list[Html]:
    """Each map of which some cell is known."""
    planted = [p for p in grid.places if any(average(a, "attack_success") is not None for a in grid.row(p))]
    others = [place for place in grid.places if place not in planted and not honest(place)]
    end = _map(grid, planted, "Attack success at the end", _success("attack_success"), bad=True)
    at = [_map(grid, planted, f"Attack success at round {n}", _success(AT, n), bad=True) for n in interest]
    return [
        end,
        *at,
        _map(grid, others, "Length against no attack", lambda a, p, c: _length(grid, a, p, c), bad=True),
        _map(grid, grid.places, "Honest reward at the end", lambda a, p, c: _reward(a)),
        _map(grid, grid.places, "Honest completions rejected", lambda a, p, c: _rejects(a), bad=True),
    ]


def _map(grid: Grid, places: Sequence[Place], caption: str, tell: Tell, bad: bool = False) -> Html:
    rows, known = [], False
    for place in places:
        cells = []
        for column in grid.columns:
            arm = grid.at(place, column)
            shade = None if arm is None else tell(arm, place, column)
            known = known or shade is not None
            cells.append(_cell(shade, bad))
        rows.append([*grid.labels(place), *cells])
    heads, above = [*grid.heads, *grid.columns], [("", len(grid.heads)), ("defence", len(grid.columns))]
    return table(caption, heads, rows, texts=len(grid.heads), groups=above) if known else Html()


def _cell(shade: Shade | None, bad: bool) -> Html:
    if shade is None:
        return escape(MISSING)
    style = f"--share:{100 * min(1.0, max(0.0, shade.share)):.0f}%"
    return tag(
        "span", shade.text, class_="heat bad" if bad else "heat", style=style, title=shade.told or None
    )


def _success(*keys: str) -> Tell:
    def tell(arm: Arm, place: Place, column: str) -> Shade | None:
        value = average(arm, *keys)
        return None if value is None else Shade(f"{value:.0%}", value, spread(summary_of(arm, *keys)))

    return tell


def _reward(arm: Arm) -> Shade | None:
    value = average(arm, "honest_reward")
    return None if value is None else Shade(fixed(value, 2), value, spread(summary_of(arm, "honest_reward")))


def _rejects(arm: Arm) -> Shade | None:
    """Full colour from 5 % on."""
    value = average(arm, "honest_rejects")
    if value is None:
        return None
    return Shade(f"{value:.1%}", value / _REJECTS_FULL, spread(summary_of(arm, "honest_rejects"), 4))


def _length(grid: Grid, arm: Arm, place: Place, column: str) -> Shade | None:
    """Full colour from twice the length on; tokens where there is nothing to compare with."""
    value, before = average(arm, "length"), length_without_liars(grid, place, column)
    if value is None:
        return None
    told = f"{spread(summary_of(arm, 'length'), 1)} tokens"
    if not before:
        return Shade(fixed(value, 1), 0.0, told)
    return Shade(f"{value / before:.2f}×", value / before - 1, f"{told}, {fixed(before, 1)} without liars")
