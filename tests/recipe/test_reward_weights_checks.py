from __future__ import annotations

import pytest

from hanse.recipe.advice import advice
from hanse.recipe.load import load_recipe
from tests.recipe.refusal import assert_refused

APART = {"reward_weights": {"type": "fixed"}}
TWO = [{"name": "exact"}, {"name": "length", "weight": 0.1}]


@pytest.mark.parametrize(
    "document",
    [
        {"mode": "swarm", "grpo": APART},
        {"grpo": APART | {"shaping": {"dra": {"enabled": True}}}},
        {"grpo": APART | {"screening": "joined"}},
        {"grpo": APART | {"objective": "rloo", "beta": 0.1}},
    ],
)
def test_what_works_on_the_sum_is_refused(document):
    assert_refused(document, "grpo.reward_weights.type", "one by one", 'use type = "sum"')


def test_the_primary_reward_exists_and_floors_leave_room():
    beyond = {"rewards": TWO, "grpo": {"reward_weights": {"type": "fixed", "primary": 2}}}
    assert_refused(beyond, "grpo.reward_weights.primary", "2 rewards", "Use 0")
    full = {"rewards": TWO, "grpo": {"reward_weights": {"type": "fixed", "floor": 0.5}}}
    assert_refused(full, "grpo.reward_weights.floor", "nothing to move", "0.25")


def test_one_reward_is_not_weighed():
    remedy = "Add [[rewards]]"
    assert_refused({"grpo": APART}, "grpo.reward_weights.type", "there is one", remedy)
    one = {"rewards": [{"name": "exact"}, {"name": "format", "weight": 0.0}], "grpo": APART}
    assert_refused(one, "grpo.reward_weights.type", "there is one", remedy)


def test_what_moves_weights_is_advised_against_where_none_moves():
    fixed = {"rewards": TWO, "grpo": {"reward_weights": {"type": "fixed", "rate": 0.5, "every": 2}}}
    told = [note for note in advice(load_recipe(fixed)) if "reward_weights" in note]
    assert [note.split()[0] for note in told] == ["grpo.reward_weights.rate", "grpo.reward_weights.every"]
    fixed["grpo"]["reward_weights"]["type"] = "hypergradient"
    assert not [note for note in advice(load_recipe(fixed)) if "reward_weights" in note]
