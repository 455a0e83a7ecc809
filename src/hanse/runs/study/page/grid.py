"""The arms of a study as a grid: attack, topology and ratio down, defence across."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hanse.runs.report.formats import known
from hanse.runs.report.reading import part
from hanse.runs.report.swarm_words import attack_name
from hanse.runs.study.page.data import Arm, StudyData

DOWN = ("attack", "topology", "ratio")

Place = tuple[str, str, str]


def honest(place: Place) -> bool:
    """Whether nobody lies in an arm: its attack is called "none", or "nobody" and perhaps more."""
    return place[0] == "none" or place[0].startswith("nobody")


@dataclass(frozen=True)
class Grid:
    """`arms`: by (place, defence)."""

    places: Sequence[Place]
    columns: Sequence[str]
    arms: Mapping[tuple[Place, str], Arm]

    @property
    def attacks(self) -> list[str]:
        return list(dict.fromkeys(place[0] for place in self.places if not honest(place)))

    @property
    def common(self) -> list[str]:
        """Defences that stand in several rows; all of them where none does."""
        many = [column for column in self.columns if sum(other == column for _, other in self.arms) > 1]
        return many or list(self.columns)

    @property
    def heads(self) -> list[str]:
        """Labels that tell rows apart."""
        return [name for i, name in enumerate(DOWN) if i == 0 or any(place[i] for place in self.places)]

    def labels(self, place: Place) -> list[str]:
        told = ["nobody lies" if place[0] == "none" else attack_name(place[0]), *place[1:]]
        return [text for name, text in zip(DOWN, told, strict=True) if name in self.heads]

    def at(self, place: Place, column: str) -> Arm | None:
        return self.arms.get((place, column))

    def row(self, place: Place) -> list[Arm]:
        return [arm for column in self.columns if (arm := self.at(place, column)) is not None]


def grid_of(data: StudyData, of: Literal["swarm", "accuracy"] = "swarm") -> Grid | None:
    """Of swarms, or of federations; None where no such arm has both an attack and a defence among its
    labels."""
    arms: dict[tuple[Place, str], Arm] = {}
    for arm in data.arms:
        group = part(arm.told, "group")
        fits = bool(part(arm.told, "swarm")) == (of == "swarm")
        if "attack" in group and "defence" in group and fits:
            place = (str(group["attack"]), str(group.get("topology", "")), str(group.get("ratio", "")))
            arms.setdefault((place, str(group["defence"])), arm)
    if not arms:
        return None
    places = list(dict.fromkeys(place for place, _ in arms))
    return Grid(places, list(dict.fromkeys(column for _, column in arms)), arms)


def average(arm: Arm | None, *keys: str) -> float | None:
    """A mean over the arm's runs."""
    return None if arm is None else known(summary_of(arm, *keys).get("mean"))


def summary_of(arm: Arm, *keys: str) -> Mapping[str, Any]:
    return part(arm.told, "swarm", *keys)


def length_without_liars(grid: Grid, place: Place, column: str) -> float | None:
    """Of the arm's own controls; else of the arm in which nobody lies, the most alike one."""
    arm = grid.at(place, column)
    own = [known(part(run, "swarm", "control").get("length")) for run in (arm.told["runs"] if arm else [])]
    found = [length for length in own if length is not None]
    if found:
        return sum(found) / len(found)
    others = [(p, c) for p, c in grid.arms if honest(p)]
    others.sort(key=lambda at: (at[0][1] != place[1], at[1] != column))
    return average(grid.arms[others[0]], "length") if others else None
