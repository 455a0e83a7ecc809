"""What of a recipe must stay as it was for the length of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from hanse.errors import RecipeError, RunError
from hanse.recipe.model import Recipe
from hanse.runs.folder import RunFolder

FREE = (
    *("name", "track", "runtime.workers", "scoring", "evaluation.stop_at", "evaluation.patience"),
    *("runtime.quorum", "runtime.patience", "runtime.deadline_s"),
    "adversary.control",
    *("grpo.micro_batch", "grpo.sample_batch", "grpo.degenerate_patience", "grpo.on_degenerate"),
    *("grpo.max_non_finite_steps", "policy.gradient_checkpointing"),
)
"""Fields that may change between sittings: where a run ends, what it is called, how much machine it takes.

`rounds` is one of them as long as the learning rate does not depend on it. Those that memory asks for
change results by rounding.
"""
_ABSENT = object()


def check_unchanged(folder: RunFolder, before: Mapping[str, Any], recipe: Recipe) -> None:
    """Raises RunError naming the first field that differs from `before`, the recipe of the last sitting."""
    try:
        known = Recipe.model_validate(before)
    except (ValidationError, RecipeError) as error:
        raise RunError(
            f"{folder.path}: the recipe in its ledger is of another version of hanse, or damaged: {error} "
            "Start a new run."
        ) from None
    free = FREE if known.grpo.schedule != "constant" else (*FREE, "rounds")
    old, new = (dict(_fields(r.model_dump(mode="json"))) for r in (known, recipe))
    for field in {**old, **new}:
        was, now = old.get(field, _ABSENT), new.get(field, _ABSENT)
        if was != now and not any(field == f or field.startswith(f"{f}.") for f in free):
            raise RunError(
                f"{folder.recipe_path}: {field} was {_shown(was)} when the run began, and is {_shown(now)} "
                "now: the recipe.toml was changed, and a run keeps what its result depends on. Undo that, "
                "or start a new run."
            )


def _fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted paths and values of a document, lists counted."""
    if not isinstance(value, dict | list):
        yield path, value
        return
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _fields(item, f"{path}.{key}" if path else str(key))


def _shown(value: Any) -> str:
    return "absent" if value is _ABSENT else "not set" if value is None else repr(value)
