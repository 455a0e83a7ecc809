"""G7: num_generations = 1 gives a nonsensical message or a NaN. Here: refused, with the reason."""

from __future__ import annotations

import pytest

from hanse.errors import RecipeError
from hanse.recipe.load import load_recipe


@pytest.mark.parametrize("objective", ["grpo", "dr_grpo", "dapo", "bnpo", "gspo", "rloo"])
@pytest.mark.parametrize("baseline", ["mean", "leave_one_out"])
def test_a_group_of_one_is_refused(objective: str, baseline: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe({"grpo": {"group_size": 1, "objective": objective, "baseline": baseline}})
    error = caught.value
    assert error.field == "grpo.group_size"
    assert "(r - mean) / std = 0 / 0 undefined" in error.problem
    assert "a group of one has nobody to be compared with" in error.problem
    assert error.remedy.startswith(
        "Use at least 2; usual is group_size = 8 with prompts_per_step = 4 (8 × 4 = 32 completions a step)."
    )
    assert "REINFORCE++" in error.remedy
    assert error.exit_code == 2


def test_none_is_refused_too() -> None:
    with pytest.raises(RecipeError, match=r"^grpo\.group_size: must be ≥ 1, got 0"):
        load_recipe({"grpo": {"group_size": 0}})


def test_two_is_enough() -> None:
    assert load_recipe({"grpo": {"group_size": 2}}).grpo.group_size == 2
