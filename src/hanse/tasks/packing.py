"""Python values through JSON and back, with tuples kept: scorers of reasoning-gym compare them."""

from __future__ import annotations

from typing import Any

_TUPLE, _PAIRS = "__tuple__", "__pairs__"


def pack(value: Any) -> Any:
    """`value` as plain JSON; `unpack` restores tuples and dictionaries with keys that are not text.

    Other objects (enumerations, numpy scalars, …) become text or numbers.
    """
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: pack(item) for key, item in value.items()}
        return {_PAIRS: [[pack(key), pack(item)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return {_TUPLE: [pack(item) for item in value]}
    if isinstance(value, list):
        return [pack(item) for item in value]
    if isinstance(value, set | frozenset):
        return [pack(item) for item in sorted(value, key=repr)]
    if value is None or type(value) in (bool, int, float, str):
        return value
    return value.item() if hasattr(value, "item") else str(value)


def unpack(value: Any) -> Any:
    """The inverse of `pack`."""
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {_TUPLE}:
        return tuple(unpack(item) for item in value[_TUPLE])
    if set(value) == {_PAIRS}:
        return {unpack(key): unpack(item) for key, item in value[_PAIRS]}
    return {key: unpack(item) for key, item in value.items()}
