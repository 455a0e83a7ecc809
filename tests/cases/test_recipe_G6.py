"""G6: "global train batch size (1 x 1) must be divisible by generations… valid values are: []".

Here a batch is problems × completions, so it cannot fail to divide; what can is the micro-batch, and its
error shows the sum and a list of values that is never empty.
"""

from __future__ import annotations

import pytest

from hanse.errors import RecipeError
from hanse.recipe.load import load_recipe


@pytest.mark.parametrize("prompts", [1, 2, 3, 7, 32])
@pytest.mark.parametrize("group_size", [2, 3, 8, 16])
def test_any_number_of_problems_goes_with_any_group_size(prompts: int, group_size: int) -> None:
    load_recipe({"grpo": {"prompts_per_step": prompts, "group_size": group_size}})


def test_the_sum_is_shown_and_a_value_suggested() -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe({"grpo": {"micro_batch": 12}})
    error = caught.value
    assert error.field == "grpo.micro_batch"
    assert error.problem == (
        "12 completions are neither whole groups nor an even part of one: 12 / 8 = 1.5 with group_size = 8 "
        "(a step has 32 problems × 8 = 256 completions)."
    )
    assert error.remedy == "Use micro_batch = 8. Valid values: 1, 2, 4, 8 and multiples of 8 up to 256."
    assert error.exit_code == 2


@pytest.mark.parametrize("group_size", [2, 3, 5, 8, 12])
def test_exactly_the_listed_values_are_valid(group_size: int) -> None:
    for micro_batch in range(1, 3 * group_size + 1):
        document = {"grpo": {"group_size": group_size, "micro_batch": micro_batch, "prompts_per_step": 3}}
        if micro_batch % group_size == 0 or group_size % micro_batch == 0:
            load_recipe(document)
            continue
        with pytest.raises(RecipeError) as caught:
            load_recipe(document)
        suggested = int(caught.value.remedy.removeprefix("Use micro_batch = ").split(".")[0])
        document["grpo"]["micro_batch"] = suggested
        load_recipe(document)
