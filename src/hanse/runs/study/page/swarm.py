"""Studies of swarms: each arm in numbers, heat maps of a grid, and attack success over rounds."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.runs.report.chart import Chart, Series, line_chart, panels
from hanse.runs.report.formats import MISSING
from hanse.runs.report.markup import Html, Section, folded, join, section, tag
from hanse.runs.report.reading import part
from hanse.runs.report.swarm_words import attack_name
from hanse.runs.report.tables import table
from hanse.runs.study.outcome import spread
from hanse.runs.study.page.data import Arm, StudyData
from hanse.runs.study.page.grid import Grid, Place, grid_of
from hanse.runs.study.page.heat import maps
from hanse.runs.study.swarm import AT

_MOST_LINES = 16
_NUMBERS = {
    "attack_success": ("attack success", 3),
    "honest_reward": ("honest reward", 3),
    "honest_rejects": ("honest rejects", 4),
    "attack_accepted": ("lies accepted", 3),
    "length": ("length", 1),
    "stop_rate": ("stop rate", 3),
}

_INTRODUCTION = """Of honest nodes, mean over runs; ± is the standard deviation over runs. At the end: mean of
the last three rounds; at a round: of that one and the two before it. Honest rejects: the share of all that
honest nodes sent."""
_MAPS = "The stronger the colour the more, red where more is worse. The pointer over a cell shows the spread."


def swarm(data: StudyData) -> Section:
    """Empty where no arm is a swarm."""
    arms = [arm for arm in data.arms if part(arm.told, "swarm")]
    if not arms:
        return section("swarm", "Swarm")
    grid = grid_of(data)
    numbers = _numbers(arms)
    return section(
        "swarm",
        "Swarm",
        tag("p", " ".join(_INTRODUCTION.split())),
        numbers if grid is None else None,
        *([] if grid is None else _of_grid(data, grid)),
        _lines(arms) if grid is None else folded("Every arm in numbers", numbers),
    )


def _interest(arms: Sequence[Arm]) -> list[str]:
    return list(dict.fromkeys(number for arm in arms for number in part(arm.told, "swarm", AT)))


def _numbers(arms: Sequence[Arm]) -> Html:
    columns = {
        head: [_spread(arm, key, digits=digits) for arm in arms] for key, (head, digits) in _NUMBERS.items()
    }
    columns |= {f"success at {n}": [_spread(arm, AT, n) for arm in arms] for n in _interest(arms)}
    kept = {head: cells for head, cells in columns.items() if any(cell != MISSING for cell in cells)}
    rows = [[arm.label, *(cells[i] for cells in kept.values())] for i, arm in enumerate(arms)]
    return table("Arms of swarms", ["arm", *kept], rows)


def _spread(arm: Arm, *keys: str, digits: int = 3) -> str:
    return spread(part(arm.told, "swarm", *keys), digits)


def _lines(arms: Sequence[Arm]) -> Html:
    """Attack success, reward and length of a few arms."""
    if len(arms) > _MOST_LINES:
        return Html()

    def chart(title: str, subject: str, key: str, top: float, small: bool = True) -> Chart:
        lines = [Series(arm.label, arm.mean(f"swarm/{key}"), i) for i, arm in enumerate(arms)]
        return Chart(title, subject, lines, small=small, also=(top,), legend=not small)

    large = chart("Attack success", "mean over runs, by round", "attack_success", 1.0, small=False)
    reward = chart("Honest reward", "mean over runs, by round", "honest_reward", 1.0)
    length = chart("Length", "mean tokens of honest nodes", "length", 0.0)
    return join(line_chart(large), panels([reward, length]))


def _of_grid(data: StudyData, grid: Grid) -> list[Html]:
    found = maps(grid, _interest(data.arms))
    told = tag("p", _MAPS, class_="quiet")
    return [told, *found, *(_curves(grid, attack) for attack in grid.attacks)]


def _curves(grid: Grid, attack: str) -> Html:
    """A small chart a topology and ratio, a line a defence; length where nothing is planted."""
    places = [place for place in grid.places if place[0] == attack]
    key, what = "swarm/attack_success", "attack success"
    if not any(arm.mean(key) for place in places for arm in grid.row(place)):
        key, what = "swarm/length", "mean tokens of honest nodes"
    lines = {place: _defended(grid, place, key) for place in places}
    everything = [y for mine in lines.values() for series in mine for _, y in series.points]
    top = [1.0] if what == "attack success" else []
    charts = [
        Chart(_where(place), f"{what} by round", mine, small=True, also=[*everything, *top], legend=False)
        for place, mine in lines.items()
    ]
    drawn = panels(charts)
    return join(tag("h3", f"{attack_name(attack)} over rounds"), drawn) if drawn else Html()


def _defended(grid: Grid, place: Place, key: str) -> list[Series]:
    found = ((i, column, grid.at(place, column)) for i, column in enumerate(grid.columns))
    return [Series(column, arm.mean(key), i) for i, column, arm in found if arm is not None]


def _where(place: Place) -> str:
    return ", ".join(text for text in place[1:] if text) or attack_name(place[0])
