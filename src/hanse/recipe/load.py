"""Recipes from TOML and back: overrides applied, paths resolved, faults told as one paragraph."""

from __future__ import annotations

import copy
import difflib
import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import tomli_w
from pydantic import ValidationError

from hanse.errors import RecipeError
from hanse.recipe.explain import explain
from hanse.recipe.model import Recipe
from hanse.recipe.overrides import apply_overrides
from hanse.recipe.paths import resolve_paths

Document = dict[str, Any]

_DEFAULT_TYPES = {"policy": "tiny", "task": "arithmetic"}


def load_recipe(source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe from a TOML file (or a mapping), and apply overrides such as "grpo.lr=1e-5".

    Relative paths in the file count from its folder, those in overrides (or a mapping) from the current one.

    Raises RecipeError for an unreadable file, invalid TOML, and everything that the recipe forbids.
    """
    if isinstance(source, Mapping):
        document, folder = copy.deepcopy(dict(source)), Path.cwd()
    else:
        document, folder = _read(Path(source)), Path(source).resolve().parent
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


def _read(path: Path) -> Document:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise RecipeError(str(path), "there is no such file.", _nearby(path)) from None
    except IsADirectoryError:
        raise RecipeError(str(path), "this is a folder.", _inside(path)) from None
    except UnicodeDecodeError as error:
        problem = f"not a text file in UTF-8 (byte {error.start})."
        raise RecipeError(str(path), problem, "Give a recipe in TOML, saved as UTF-8.") from None
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})."
        raise RecipeError(str(path), problem, "Check the file and its permissions.") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        remedy = 'Correct that line; strings need quotes (name = "run"), sections look like [grpo].'
        raise RecipeError(str(path), f"invalid TOML: {error}.", remedy) from None


def _nearby(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"The folder {folder} does not exist either; check the path."
    names = sorted(p.name for p in folder.glob("*.toml"))
    close = difflib.get_close_matches(path.name, names, 1, 0.5)
    if close:
        return f"Did you mean {folder / close[0]}?"
    return f"Recipes there: {', '.join(names[:10])}." if names else "Check the path."


def _inside(path: Path) -> str:
    names = sorted(path.glob("*.toml"))
    if not names:
        return "Give a recipe file."
    resolved = path / "recipe.toml"
    return f"Give a recipe file, for example {resolved if resolved in names else names[0]}."
