"""A study file: several arms of one recipe, the seeds that they share, and what is compared with what."""

from __future__ import annotations

import itertools
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from hanse.errors import RecipeError
from hanse.recipe.files import read_document
from hanse.recipe.load import load_recipe
from hanse.recipe.model import Recipe
from hanse.recipe.overrides import apply_overrides
from hanse.recipe.paths import resolve_paths
from hanse.recipe.section import Section
from hanse.recipe.study_checks import check_study, flat, study_error

Settings = Mapping[str, Any]

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,60}$"


class ArmSpec(Section):
    """One row of the comparison: the recipe with `set` applied, and the best of `tune` if there is any.

    `group`: free labels that place the arm in a grid; the page of swarms knows attack, defence, ratio and
    topology.
    """

    name: str = Field(pattern=_NAME)
    label: str | None = None
    settings: dict[str, Any] = Field(default={}, alias="set")
    tune: dict[str, Any] = Field(default={})
    published: float | None = None
    group: dict[str, str] = Field(default={})

    @property
    def title(self) -> str:
        return self.label or self.name

    def trials(self) -> list[dict[str, Any]]:
        """Every combination of the grid, the last key changing fastest; none without `tune`."""
        grid = flat(self.tune)
        if not grid:
            return []
        return [dict(zip(grid, chosen, strict=True)) for chosen in itertools.product(*grid.values())]


class ContrastSpec(Section):
    """A named paired comparison: the first arm minus the second."""

    name: str
    arms: list[str] = Field(min_length=2, max_length=2)


class StudySpec(Section):
    """The file as it is written (see docs/studies.md)."""

    name: str = Field(pattern=_NAME)
    recipe: str
    baseline: str
    seeds: list[int] = Field(min_length=1)
    starts: list[int] = Field(default=[])
    development_seeds: list[int] = Field(default=[])
    workers: int = Field(default=1, ge=1)
    accuracy_targets: list[float] = Field(default=[])
    rounds_of_interest: list[Annotated[int, Field(ge=1)]] = Field(default=[])
    arms: list[ArmSpec] = Field(min_length=1)
    contrasts: list[ContrastSpec] = Field(default=[])

    def arm(self, name: str) -> ArmSpec:
        return next(arm for arm in self.arms if arm.name == name)

    def pairs(self) -> list[tuple[int, int | None]]:
        """(seed, start) of the reported runs, all starts of a seed together."""
        starts: list[int | None] = [*self.starts] or [None]
        return [(seed, start) for seed in self.seeds for start in starts]


@dataclass(frozen=True)
class Study:
    """A study file that was read: its text, its content, where it lies, and overrides for every arm."""

    path: Path
    text: str
    spec: StudySpec
    overrides: tuple[str, ...] = ()

    def recipe(
        self, arm: ArmSpec, seed: int, start: int | None = None, trial: Settings | None = None
    ) -> Recipe:
        """The resolved recipe of one run. Later wins: base, `set`, trial, --set, what the study decides.

        Raises RecipeError that names the arm and the field.
        """
        base = (self.path.parent / self.spec.recipe).resolve()
        document = tomllib.loads(base.read_text(encoding="utf-8-sig"))
        resolve_paths(document, base.parent)
        decided = {"seed": seed, "name": f"{self.spec.name}-{arm.name}"}
        decided |= {"runtime.workers": 1, "runtime.threads": 1}
        decided |= {} if start is None else {"policy.seed": start}
        try:
            apply_overrides(document, as_overrides({**flat(arm.settings), **(trial or {})}))
            resolve_paths(document, self.path.resolve().parent)
            return load_recipe(document, [*self.overrides, *as_overrides(decided)])
        except RecipeError as error:
            raise RecipeError(f"arms.{arm.name}: {error.field}", error.problem, error.remedy) from None


def load_study(path: Path, overrides: Sequence[str] = ()) -> Study:
    """Read a study file and check it and every recipe that it will run.

    Raises RecipeError for an unreadable file, and for everything that a study or a recipe forbids.
    """
    document, text = read_document(path, "study")
    try:
        spec = StudySpec.model_validate(document, strict=True)
    except ValidationError as error:
        raise study_error(
            error, document, {"": StudySpec, "arms": ArmSpec, "contrasts": ContrastSpec}
        ) from None
    load_recipe(path.parent / spec.recipe)
    check_study(spec, overrides)
    study = Study(path, text, spec, tuple(overrides))
    for arm in spec.arms:
        for trial in arm.trials() or [{}]:
            recipe = study.recipe(arm, *spec.pairs()[0], trial)
        if arm.tune:
            _check_validation(arm, recipe)
    return study


def _check_validation(arm: ArmSpec, recipe: Recipe) -> None:
    """Without validation problems a run validates on held-out ones, which must not choose anything."""
    if getattr(recipe.task, "validation_fraction", 1.0) == 0:
        raise RecipeError(
            f"arms.{arm.name}: tune",
            "the task has no validation problems to choose by (task.validation_fraction is 0).",
            "Set task.validation_fraction = 0.1 in the recipe.",
        )


def as_overrides(settings: Settings) -> list[str]:
    """{"grpo.lr": 1e-3} as what --set takes."""
    return [f"{path}={_toml(value)}" for path, value in settings.items()]


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False, default=str)
