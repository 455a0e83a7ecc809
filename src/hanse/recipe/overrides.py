"""`--set grpo.lr=1e-5`: changes to a recipe document before it is validated."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from hanse.errors import RecipeError


def apply_overrides(document: dict[str, Any], overrides: Sequence[str]) -> None:
    """Apply "dotted.path=value" strings in order. A number in the path is a position in a list.

    Raises RecipeError for an override without "=", and for a path that leads through a plain value.
    """
    for override in overrides:
        path, equals, text = override.partition("=")
        keys = path.strip().split(".")
        if not equals or not all(keys):
            remedy = "Write it as KEY=VALUE, for example --set grpo.lr=1e-5."
            raise RecipeError("--set", f"{override!r} is not an override.", remedy)
        _put(document, keys, parse_value(text))


def parse_value(text: str) -> Any:
    """The text as a TOML value; as a plain string where it is none, so that `--set mode=local` works."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text.strip()
    return parsed["value"] if len(parsed) == 1 else text.strip()


def _put(document: dict[str, Any], keys: list[str], value: Any) -> None:
    node: Any = document
    for i, key in enumerate(keys):
        last = i + 1 == len(keys)
        where = ".".join(keys[: i + 1])
        if isinstance(node, dict):
            if last:
                node[key] = value
            else:
                node = node.setdefault(key, [] if keys[i + 1].isdigit() else {})
        elif isinstance(node, list):
            index = _index(node, key, where)
            if index == len(node):
                node.append(value if last else {})
            elif last:
                node[index] = value
            node = node[index]
        else:
            above = ".".join(keys[:i])
            raise RecipeError(where, f"{above} is a plain value ({node!r}).", f"Set {above} itself.")


def _index(node: list[Any], key: str, where: str) -> int:
    if key.isdigit() and int(key) <= len(node):
        return int(key)
    valid = f"0 to {len(node) - 1}, or {len(node)} to append" if node else "0, to append"
    raise RecipeError(where, f"{key!r} is no position in this list of {len(node)}.", f"Use {valid}.")
