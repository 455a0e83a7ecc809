"""Cross-checks of a recipe: impossible sums and impossible pairs, each with its remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hanse.recipe.model import Recipe


def check(recipe: Recipe) -> None:
    """Raise RecipeError where fields contradict one another."""
