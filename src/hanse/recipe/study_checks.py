"""What a study may not say, each with its remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from hanse.errors import RecipeError

if TYPE_CHECKING:
    from hanse.recipe.study import ArmSpec, StudySpec

_DECIDED = ("seed", "name", "runtime.workers", "runtime.threads")


def flat(table: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Nested tables as dotted paths: `"grpo.lr" = 1` and `grpo.lr = 1` mean the same."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        where = f"{path}.{key}" if path else key
        found |= flat(value, where) if isinstance(value, Mapping) else {where: value}
    return found


def check_study(spec: StudySpec, overrides: Sequence[str]) -> None:
    """Raises RecipeError where fields of a study contradict one another."""
    names = [arm.name for arm in spec.arms]
    _distinct("arms", names)
    _known("baseline", spec.baseline, names)
    for field in ("seeds", "starts", "development_seeds", "accuracy_targets", "rounds_of_interest"):
        _distinct(field, getattr(spec, field))
    for field in ("seeds", "starts", "development_seeds"):
        _seeds(field, getattr(spec, field))
    _distinct("contrasts", [contrast.name for contrast in spec.contrasts])
    for contrast in spec.contrasts:
        _distinct(f"contrasts.{contrast.name}", contrast.arms)
        for arm in contrast.arms:
            _known(f"contrasts.{contrast.name}", arm, names)
    _fresh(spec)
    for one in spec.arms:
        _arm(spec, one, overrides)
    _equal_trials(spec.arms)
    _places(spec.arms)
    decided = decided_fields(spec)
    for override in overrides:
        _undecided("--set", override.partition("=")[0].strip(), decided)


def decided_fields(spec: StudySpec) -> tuple[str, ...]:
    return (*_DECIDED, "policy.seed") if spec.starts else _DECIDED


def _fresh(spec: StudySpec) -> None:
    shared = sorted(set(spec.seeds) & set(spec.development_seeds))
    if shared:
        raise RecipeError(
            "development_seeds",
            f"{_listed(shared)} would be used both for tuning and for the reported runs.",
            "Report on seeds that chose nothing: take others.",
        )


def _arm(spec: StudySpec, arm: ArmSpec, overrides: Sequence[str]) -> None:
    where, grid = f"arms.{arm.name}", flat(arm.tune)
    for key in [*flat(arm.settings), *grid]:
        _undecided(where, key, decided_fields(spec))
    for key, choices in grid.items():
        if not isinstance(choices, list) or not choices:
            raise RecipeError(
                f"{where}.tune",
                f"{key} has no list of values.",
                f'Write "{key}" = [A, B] with two or more values.',
            )
        if any(override.partition("=")[0].strip() == key for override in overrides):
            raise RecipeError(
                "--set", f"{key} is what arm {arm.name} tunes.", "Leave it out, or remove the grid."
            )
    if grid and not spec.development_seeds:
        raise RecipeError(
            "development_seeds", f"arm {arm.name} tunes, but there is no seed to tune on.", "Add [0, 1]."
        )


def _undecided(where: str, key: str, decided: Iterable[str]) -> None:
    if key in decided:
        raise RecipeError(
            f"{where}: {key}",
            "the study itself decides this for every run.",
            "Use seeds and starts; leave it out.",
        )


def _equal_trials(arms: Sequence[ArmSpec]) -> None:
    """More trials find a better best by luck alone."""
    counts = {arm.name: len(arm.trials()) for arm in arms if arm.tune}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise RecipeError(
            "arms",
            f"arms that tune must have the same number of trials: {told}.",
            "Make their grids equally large.",
        )


def _places(arms: Sequence[ArmSpec]) -> None:
    """A cell of a grid has one arm."""
    taken: dict[tuple[tuple[str, str], ...], str] = {}
    for arm in arms:
        place = tuple(sorted(arm.group.items()))
        if place and place in taken:
            raise RecipeError(
                f"arms.{arm.name}.group",
                f"arm {taken[place]} has the same labels.",
                "Give one of them another label, or leave its group out.",
            )
        taken[place] = arm.name


def _seeds(field: str, numbers: Sequence[int]) -> None:
    wrong = [number for number in numbers if not 0 <= number < 2**31]
    if wrong:
        raise RecipeError(field, f"{_listed(wrong)} cannot be a seed.", "Seeds go from 0 to 2147483647.")


def _distinct(field: str, values: Sequence[Any]) -> None:
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise RecipeError(field, f"{_listed(twice)} appears more than once.", "Give each one once.")


def _known(field: str, name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise RecipeError(field, f'"{name}" is not an arm.', f"Choose one of {', '.join(names)}.")


def known_arms(field: str, chosen: Sequence[str], names: Sequence[str]) -> None:
    """Raises RecipeError for the first of `chosen` that is no arm."""
    for name in chosen:
        _known(field, name, names)


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(map(str, values))


def study_error(
    error: ValidationError, document: Mapping[str, Any], sections: Mapping[str, type[BaseModel]]
) -> RecipeError:
    """The first complaint about a study file, in its own words; arms are called by their names."""
    details = error.errors(include_url=False)[0]
    loc = list(details["loc"])
    keys = [f.alias or name for name, f in sections[_section(loc)].model_fields.items()]
    where, key = _path(loc, document), str(loc[-1])
    if details["type"] == "extra_forbidden":
        close = difflib.get_close_matches(key, keys, 1, 0.6)
        hint = f"Did you mean {close[0]}? " if close else ""
        return RecipeError(where, "unknown key.", f"{hint}Valid keys: {', '.join(keys)}.")
    if details["type"] == "missing":
        return RecipeError(where, "required, but not given.", f"Add {key} = ….")
    if details["type"] == "string_pattern_mismatch":
        remedy = "Use at most 61 letters, digits, dots, dashes and underscores, a letter or digit first."
        return RecipeError(where, f"{details['input']!r} cannot name a folder.", remedy)
    return RecipeError(
        where, f"{details['msg']} (got {details['input']!r}).", "Change it; see docs/studies.md."
    )


def _section(loc: Sequence[int | str]) -> str:
    return str(loc[0]) if len(loc) > 2 and loc[0] in ("arms", "contrasts") else ""


def _path(loc: Sequence[int | str], document: Mapping[str, Any]) -> str:
    parts = [str(part) for part in loc]
    if _section(loc) and isinstance(loc[1], int):
        parts[1] = str(document[str(loc[0])][loc[1]].get("name", loc[1]))
    return ".".join(parts)
