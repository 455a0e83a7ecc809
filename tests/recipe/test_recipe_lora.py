"""LoRA aggregation rules refuse what they cannot mean."""

from __future__ import annotations

import pytest

from hanse.errors import RecipeError
from hanse.recipe.federation import LORA_RULES
from hanse.recipe.load import load_recipe

REFUSED = [
    ("rolora", {"codec": "dense"}, "federation.codec"),
    ("flexlora", {"exchange_dtype": "bfloat16"}, "federation.exchange_dtype"),
    ("rolora", {"budget": {"fraction": 0.5}}, "federation.budget.error_feedback"),
    ("flexlora", {"budget": {"bits": 4}}, "federation.budget.error_feedback"),
    ("rolora", {"server_optimizer": "momentum"}, "federation.server_optimizer"),
    ("flexlora", {"server_optimizer": "average"}, "federation.server_optimizer"),
    ("flexlora", {"server": {"lr": 0.5}}, "federation.server.lr"),
    ("rolora", {"local": "scaffold"}, "federation.local"),
    ("flora", {"budget": {"fraction": 0.5}}, "federation.budget.error_feedback"),
    ("flora", {"server_optimizer": "nesterov"}, "federation.server_optimizer"),
    ("fedex", {"server": {"lr": 0.5}}, "federation.server.lr"),
    ("fedex", {"local": "scaffold"}, "federation.local"),
    ("flexlora", {"local": "fedadamw"}, "federation.local"),
    ("fedsa", {"server_optimizer": "average"}, "federation.server_optimizer"),
    ("fedsa", {"local": "scaffold"}, "federation.local"),
]
ACCEPTED = [
    ("ffa", {"server_optimizer": "adam", "local": "scaffold", "budget": {"fraction": 0.1}}),
    ("rolora", {"budget": {"bits": 2, "error_feedback": "off"}, "server": {"lr": 0.5}}),
    ("flexlora", {"local": "fednova"}),
    ("fedex", {"budget": {"bits": 8}}),
    ("flora", {"budget": {"bits": 8, "error_feedback": "off"}}),
    ("fedsa", {"server_optimizer": "coherent", "budget": {"fraction": 0.1, "error_feedback": "start"}}),
]


def recipe(rule: str, federation: dict, train: str = "lora", **fields):
    document = {"policy": {"type": "tiny", "train": train}, "federation": {"aggregation": rule, **federation}}
    return load_recipe(document | fields)


@pytest.mark.parametrize("rule", LORA_RULES)
def test_there_must_be_factors(rule):
    with pytest.raises(RecipeError, match="has none") as error:
        recipe(rule, {}, train="full")
    assert error.value.field == "federation.aggregation" and "lora" in error.value.remedy
    recipe(rule, {}, train="full", mode="central")
    recipe(rule, {})


@pytest.mark.parametrize(("rule", "federation", "field"), REFUSED)
def test_refused(rule, federation, field):
    with pytest.raises(RecipeError) as error:
        recipe(rule, federation)
    assert error.value.field == field and error.value.remedy


@pytest.mark.parametrize(("rule", "federation"), ACCEPTED)
def test_accepted(rule, federation):
    recipe(rule, federation)
