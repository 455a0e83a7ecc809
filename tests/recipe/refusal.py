"""What every refusal of a recipe is held to."""

from __future__ import annotations

from typing import Any

import pytest

from hanse.errors import RecipeError
from hanse.recipe.load import load_recipe


def assert_refused(document: dict[str, Any], field: str, problem: str, remedy: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe(document)
    assert caught.value.field == field
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy
    assert caught.value.exit_code == 2
