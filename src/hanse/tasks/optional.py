"""Packages that only some tasks and rewards need."""

from __future__ import annotations

import importlib
from types import ModuleType

from hanse.errors import RecipeError


def install(extra: str) -> str:
    """The command that adds an extra of the package to a clone of it."""
    return f'pip install -e ".[{extra}]"'


def require(module: str, extra: str, field: str) -> ModuleType:
    """Import `module`. Raises RecipeError on `field` that names the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise RecipeError(
            field,
            f"this needs the package {module.split('.')[0]!r}, which cannot be imported ({error}).",
            f"In the clone of hanse, run `{install(extra)}`.",
        ) from error
