"""Pydantic's complaints about a recipe, told in the recipe's own words."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticUndefined

from hanse.errors import RecipeError
from hanse.recipe.model import Recipe

_EXPECTED = {
    "int_type": "an integer",
    "float_type": "a number",
    "string_type": "a string",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
}
_BOUNDS = {"greater_than": ">", "greater_than_equal": "≥", "less_than": "<", "less_than_equal": "≤"}

_LABEL = re.compile(r"(?:list|literal|tagged-union)\[.*\]")


@dataclass(frozen=True)
class _Place:
    """Where a complaint points: the dotted path, the innermost section on the way, and the last field."""

    path: str
    section: type[BaseModel]
    section_path: str
    field: FieldInfo | None
    key: str


@dataclass(frozen=True)
class _Fault:
    path: str
    problem: str
    remedy: str


def explain(error: ValidationError) -> RecipeError:
    """One error for all complaints: the first in full, the others briefly."""
    faults: dict[str, _Fault] = {}
    for details in _nearest(error.errors(include_url=False)):
        fault = _fault(details)
        earlier = faults.get(fault.path)
        faults[fault.path] = fault if earlier is None else _merged(earlier, fault)
    first, *others = faults.values()
    if not others:
        return RecipeError(first.path, first.problem, first.remedy)
    rest = "; ".join(f"{fault.path}: {fault.problem.rstrip('.')}" for fault in others)
    return RecipeError(first.path, first.problem, f"{first.remedy} Also wrong: {rest}.")


def _nearest(complaints: list[ErrorDetails]) -> list[ErrorDetails]:
    """Without pydantic's labels of a union's members, and without what members complain of that nobody
    meant: of a list of tables with a wrong key, that it is not the word that might stand there too."""
    places = [tuple(part for part in one["loc"] if not _LABEL.fullmatch(str(part))) for one in complaints]
    return [
        ErrorDetails(**{**one, "loc": place})
        for one, place in zip(complaints, places, strict=True)
        if len(place) == len(one["loc"]) or not any(_is_within(other, place) for other in places)
    ]


def _is_within(inner: tuple[int | str, ...], outer: tuple[int | str, ...]) -> bool:
    return len(inner) > len(outer) and inner[: len(outer)] == outer


def _merged(a: _Fault, b: _Fault) -> _Fault:
    return _Fault(a.path, a.problem, a.remedy if b.remedy in a.remedy else f"{a.remedy} Or: {b.remedy}")


def _fault(details: ErrorDetails) -> _Fault:
    kind, given, context = details["type"], _shown(details["input"]), details.get("ctx", {})
    place = _place(details["loc"])
    if kind == "extra_forbidden":
        return _Fault(place.path, "unknown key.", _other_key(place))
    if kind == "missing" and place.field is not None:
        return _missing(place)
    if kind == "literal_error":
        return _Fault(place.path, f"{given} is not a choice.", f"Choose {_any_of(context['expected'])}.")
    if kind == "union_tag_invalid":
        tags = _any_of(context["expected_tags"])
        return _Fault(f"{place.path}.type", f'"{context["tag"]}" is not a choice.', f"Choose one of {tags}.")
    if kind == "union_tag_not_found":
        return _Fault(f"{place.path}.type", "required, but not given.", "Say of which type it is.")
    if kind in _EXPECTED:
        return _Fault(place.path, f"expected {_EXPECTED[kind]}, got {given}.", _instead(place, kind))
    if kind in _BOUNDS:
        (bound,) = context.values()
        return _Fault(
            place.path, f"must be {_BOUNDS[kind]} {bound:g}, got {given}.", _default(place, "Change it")
        )
    if kind == "too_long":
        problem = f"takes {context['max_length']} values, got {context['actual_length']}."
        return _Fault(place.path, problem, _default(place, "Leave out the rest"))
    return _Fault(place.path, f"{details['msg']} (got {given}).", _default(place, "Change it"))


def _missing(place: _Place) -> _Fault:
    assert place.field is not None
    if not place.field.is_required():
        return _Fault(place.path.rpartition(".")[0], "too few values.", _default(place, "Give all of them"))
    where = f"[{place.section_path}]" if place.section_path else "the recipe"
    return _Fault(place.path, "required, but not given.", f"Add {place.key} = … to {where}.")


def _instead(place: _Place, kind: str) -> str:
    if kind in ("dict_type", "model_type"):
        return f"Write a section [{place.path}] with one KEY = VALUE a line." if place.path else "Write TOML."
    if kind == "list_type" and place.path == "rewards":
        return "Write each reward as a section [[rewards]]."
    hint = " (in quotes)" if kind == "string_type" else ""
    return _default(place, f"Give {_EXPECTED[kind]}{hint}")


def _default(place: _Place, request: str) -> str:
    default = place.field.default if place.field is not None else PydanticUndefined
    if default in (PydanticUndefined, None) or isinstance(default, BaseModel | list):
        return f"{request}."
    return f"{request}; the default is {place.key} = {_shown(default)}."


def _other_key(place: _Place) -> str:
    """The nearest valid key, or the section where this key would be right; and all valid keys."""
    keys = list(place.section.model_fields)
    section = f"of [{place.section_path}]" if place.section_path else "at the top"
    valid = f"Valid keys {section}: {', '.join(keys)}."
    homes = [home for home in _homes(place.key) if home != place.section_path]
    for home in homes:
        if home.startswith(f"{place.section_path}.type = "):
            return f"This key belongs to {home}. {valid}"
    close = difflib.get_close_matches(place.key, keys, 1, 0.6)
    if close:
        return f"Did you mean {close[0]}? {valid}"
    return f"This key belongs to {' or '.join(f'[{home}]' for home in homes)}. {valid}" if homes else valid


def _homes(key: str) -> Iterator[str]:
    """Every section that has this key: its path, or `path.type = "…"` where the section has several types."""
    for path, section, tag in _sections(Recipe, ""):
        if key in section.model_fields and path:
            yield f'{path}.type = "{tag}"' if tag else path


def _sections(
    section: type[BaseModel], path: str, tag: str = ""
) -> Iterator[tuple[str, type[BaseModel], str]]:
    yield path, section, tag
    for name, field in section.model_fields.items():
        members = _members(field.annotation)
        for member in members:
            inner = f"{path}.{name}" if path else name
            yield from _sections(member, inner, _tags(member)[0] if len(members) > 1 else "")


def _place(loc: tuple[int | str, ...]) -> _Place:
    """Follow a location through the sections, leaving out the tags of unions."""
    section: type[BaseModel] = Recipe
    section_path, path, field, key = "", list[str](), None, ""
    rest = list(loc)
    while rest:
        key = str(rest.pop(0))
        path.append(key)
        field = section.model_fields.get(key)
        if field is None:
            break
        members = _members(field.annotation)
        if not members:
            path += [str(part) for part in rest if not _is_union(field.annotation)]
            break
        if rest and isinstance(rest[0], int):
            path.append(str(rest.pop(0)))
        if len(members) > 1 and rest:
            tag = rest.pop(0)
            members = [member for member in members if tag in _tags(member)]
        if rest:
            section, section_path = members[0], ".".join(path)
    return _Place(".".join(path), section, section_path, field, key)


def _members(annotation: Any) -> list[type[BaseModel]]:
    """The sections that a field's type allows, through lists, unions and annotations."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [member for argument in get_args(annotation) for member in _members(argument)]


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) not in (list, dict, tuple, Literal) and len(get_args(annotation)) > 1


def _tags(section: type[BaseModel]) -> tuple[str, ...]:
    field = section.model_fields.get("type")
    return get_args(field.annotation) if field is not None else ()


def _any_of(expected: str) -> str:
    """Pydantic's "'a', 'b' or 'c'" with double quotes, as TOML wants them."""
    return re.sub(r"'([^']*)'", r'"\1"', expected)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a table"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "…"
