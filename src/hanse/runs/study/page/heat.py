"""Heat maps of a grid of arms: the number stands in its cell, so that colour is not all there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hanse.runs.report.markup import Html, tag
from hanse.runs.report.tables import table
from hanse.runs.study.page.grid import Grid, Place, average, honest
from hanse.runs.study.page.shades import Tell, cell, length, rejects, reward, success
from hanse.runs.study.swarm import AT


@dataclass(frozen=True)
class Measure:
    """`bad`: more is worse."""

    caption: str
    head: str
    places: Sequence[Place]
    tell: Tell
    bad: bool = True


def maps(grid: Grid, interest: Sequence[str]) -> list[Html]:
    """Each map of which some cell is known, of defences that meet several attacks; then the other arms."""
    measures = _measures(grid, interest)
    return [*(heat_map(grid, measure) for measure in measures), _rare(grid, measures)]


def _measures(grid: Grid, interest: Sequence[str]) -> list[Measure]:
    planted = [p for p in grid.places if any(average(a, "attack_success") is not None for a in grid.row(p))]
    others = [place for place in grid.places if place not in planted and not honest(place)]
    at = [
        Measure(f"Attack success at round {n}", f"success at {n}", planted, success(AT, n)) for n in interest
    ]
    return [
        Measure("Attack success at the end", "attack success", planted, success("attack_success")),
        *at,
        Measure("Length against no attack", "length", others, length(grid)),
        Measure("Honest reward at the end", "honest reward", grid.places, reward, bad=False),
        Measure("Honest completions rejected", "honest rejects", grid.places, rejects),
    ]


def _shade(grid: Grid, measure: Measure, place: Place, column: str) -> Html:
    arm = grid.at(place, column) if place in measure.places else None
    return cell(None if arm is None else measure.tell(arm, place, column), measure.bad)


def heat_map(grid: Grid, measure: Measure) -> Html:
    """One measure of defences that meet several attacks."""
    columns = grid.common
    found = {place: [_shade(grid, measure, place, column) for column in columns] for place in measure.places}
    rows = [[*_labels(grid, place), *cells] for place, cells in found.items() if any("<" in c for c in cells)]
    heads, above = [*grid.heads, *columns], [("", len(grid.heads)), ("defence", len(columns))]
    return table(measure.caption, heads, rows, texts=len(grid.heads), groups=above)


def _rare(grid: Grid, measures: Sequence[Measure]) -> Html:
    """Arms whose defence meets one attack only: a row each."""
    arms = [(place, column) for place, column in grid.arms if column not in grid.common]
    cells = [[_shade(grid, measure, *arm) for measure in measures] for arm in arms]
    kept = [i for i in range(len(measures)) if any("<" in row[i] for row in cells)]
    rows = [
        [*_labels(grid, place), _whole(column), *(row[i] for i in kept)]
        for (place, column), row in zip(arms, cells, strict=True)
    ]
    heads = [*grid.heads, "defence", *(measures[i].head for i in kept)]
    return table("Further defences, each against one attack", heads, rows, texts=len(grid.heads) + 1)


def _labels(grid: Grid, place: Place) -> list[Html]:
    return [_whole(label) for label in grid.labels(place)]


def _whole(text: str) -> Html:
    return tag("span", text, class_="whole")
