"""Recipes from TOML and back: overrides applied, paths resolved, faults told as one paragraph."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import tomli_w
from pydantic import ValidationError

from hanse.errors import RecipeError
from hanse.recipe.explain import explain
from hanse.recipe.files import Document, read_document
from hanse.recipe.model import Recipe
from hanse.recipe.overrides import apply_overrides
from hanse.recipe.paths import resolve_paths

_DEFAULT_TYPES = {"policy": "tiny", "task": "arithmetic"}


def load_recipe(source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe from a TOML file (or a mapping), and apply overrides such as "grpo.lr=1e-5".

    Relative paths in the file count from its folder, those in overrides (or a mapping) from the current one.

    Raises RecipeError for an unreadable file, invalid TOML, and everything that the recipe forbids.
    """
    if isinstance(source, Mapping):
        document, folder = copy.deepcopy(dict(source)), Path.cwd()
    else:
        document, folder = read_document(Path(source), "recipe")[0], Path(source).resolve().parent
    resolve_paths(document, folder)
    apply_overrides(document, overrides)
    resolve_paths(document, Path.cwd())
    for section, default in _DEFAULT_TYPES.items():
        if isinstance(document.get(section), dict):
            document[section].setdefault("type", default)
    return _validate(document)


def dump_recipe(recipe: Recipe) -> str:
    """The recipe as TOML, every default written out; `load_recipe` reads it back as an equal recipe."""
    return tomli_w.dumps(_without_none(recipe.model_dump(mode="json")))


def _validate(document: Document) -> Recipe:
    for path, value in _leaves(document):
        if isinstance(value, float) and not math.isfinite(value):
            raise RecipeError(path, f"{value} is not a finite number.", "Give a finite number.")
        if not isinstance(value, str | int | float | None):
            raise RecipeError(
                path, f"a {type(value).__name__} has no place in a recipe.", "Write it in quotes."
            )
    try:
        return Recipe.model_validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        raise explain(error) from None


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Everything that is not a table or a list, with its dotted path. Paths become strings on the way."""
    if isinstance(value, dict | list):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        for key in keys:
            if isinstance(value[key], PurePath):
                value[key] = str(value[key])
            elif isinstance(value[key], tuple):
                value[key] = list(value[key])
            yield from _leaves(value[key], f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value
