"""Studies of lying clients: heat maps of attacks down and defences across."""

from __future__ import annotations

from hanse.runs.report.formats import fixed, known
from hanse.runs.report.markup import Section, section, tag
from hanse.runs.report.reading import part
from hanse.runs.study.outcome import interval_of, spread
from hanse.runs.study.page.data import Arm, StudyData
from hanse.runs.study.page.grid import Place, grid_of
from hanse.runs.study.page.heat import Measure, heat_map
from hanse.runs.study.page.shades import Shade, Tell

_LOSS_FULL = 0.1
_REFUSED_FULL = 3.0
_INTRODUCTION = """Mean over runs. Loss: accuracy of the baseline minus that of the arm, in points, in pairs.
The stronger the colour the more, red where more is worse. The pointer over a cell shows the spread."""


def hostile(data: StudyData) -> Section:
    """Empty where no arm has both an attack and a defence among its labels, or all are swarms."""
    grid = grid_of(data, "accuracy")
    if grid is None:
        return section("hostile", "Lying clients")
    measures = [
        Measure(f"Accuracy lost against {data.baseline}, points", "loss", grid.places, _loss),
        Measure("Accuracy", "accuracy", grid.places, _accuracy, bad=False),
        Measure(
            "Attack success", "attack success", grid.places, _scalar("attack_success", 1.0, percent=True)
        ),
        Measure("Honest clients refused", "refused", grid.places, _scalar("honest_refused", _REFUSED_FULL)),
        Measure("Liars found at 5 % honest alarms", "found", grid.places, _scalar("found", 1.0), bad=False),
    ]
    maps = [heat_map(grid, measure) for measure in measures]
    words = tag("p", " ".join(_INTRODUCTION.split()))
    return section("hostile", "Lying clients", words, *(found for found in maps if 'class="heat' in found))


def _loss(arm: Arm, place: Place, column: str) -> Shade | None:
    difference = arm.told.get("difference") or {}
    mean = known(difference.get("mean"))
    if mean is None:
        return None
    return Shade(fixed(-100 * mean, 1), -mean / _LOSS_FULL, f"minus baseline: {interval_of(difference)}")


def _accuracy(arm: Arm, place: Place, column: str) -> Shade | None:
    mean = known(arm.told.get("mean"))
    return None if mean is None else Shade(fixed(mean), mean, spread(arm.told))


def _scalar(key: str, full: float, *, percent: bool = False) -> Tell:
    def tell(arm: Arm, place: Place, column: str) -> Shade | None:
        told = part(arm.told, "defence", key)
        mean = known(told.get("mean"))
        if mean is None:
            return None
        return Shade(f"{mean:.0%}" if percent else fixed(mean, 2), mean / full, spread(told))

    return tell
