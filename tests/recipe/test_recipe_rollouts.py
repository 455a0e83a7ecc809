"""How rollouts are shared out: what is refused, what is noted, and what neither is."""

from __future__ import annotations

from typing import Any

import pytest

from hanse.errors import RecipeError
from hanse.recipe.advice import advice
from hanse.recipe.load import load_recipe
from tests.recipe.refusal import assert_refused

INFORMATIVE = {"rollouts": "informative"}


@pytest.mark.parametrize(
    ("document", "field", "problem", "remedy"),
    [
        (
            {"federation": INFORMATIVE, "grpo": {"dynamic_sampling": True}},
            "federation.rollouts",
            "keeps informative groups only",
            'rollouts = "equal"',
        ),
        (
            {"federation": INFORMATIVE, "grpo": {"mini_batches": 2}},
            "federation.rollouts",
            "grpo.mini_batches = 2",
            "mini_batches = 1",
        ),
        (
            {
                "federation": INFORMATIVE,
                "grpo": {"screening": "joined", "prompts_per_step": 3, "group_size": 6},
            },
            "federation.rollouts",
            "as few as 12 rollouts a step",
            "grpo.deepen = 8 or less",
        ),
        (
            {"grpo": {"allocation": "variance", "dynamic_sampling": True}},
            "grpo.allocation",
            "throws away",
            "dynamic_sampling = false",
        ),
    ],
)
def test_refused(document: dict[str, Any], field: str, problem: str, remedy: str) -> None:
    assert_refused(document, field, problem, remedy)


def test_a_swarm_chooses_its_problems_by_itself() -> None:
    grpo = {"allocation": "variance", "local_steps": 1}
    with pytest.raises(RecipeError) as caught:
        load_recipe({"mode": "swarm", "grpo": grpo, "swarm": {"nodes": 2}})
    assert caught.value.field == "grpo.allocation"


@pytest.mark.parametrize("mode", ["local", "central"])
def test_noted_where_nothing_is_exchanged(mode: str) -> None:
    recipe = load_recipe({"mode": mode, "federation": INFORMATIVE, "grpo": {"mini_batches": 2}})
    notes = [note for note in advice(recipe) if note.startswith("federation.rollouts")]
    assert len(notes) == 1
    assert mode in notes[0]
    assert recipe.federation_in_force.rollouts == "equal"


@pytest.mark.parametrize(
    "grpo",
    [
        {},
        {"screening": "joined"},
        {"screening": "fresh", "prompts_per_step": 3, "group_size": 8},
        {"allocation": "variance"},
    ],
)
def test_neither(grpo: dict[str, Any]) -> None:
    recipe = load_recipe({"federation": INFORMATIVE, "grpo": grpo})
    assert not [note for note in advice(recipe) if "rollouts" in note or "allocation" in note]
