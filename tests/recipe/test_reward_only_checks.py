from __future__ import annotations

import pytest

from hanse.recipe.load import load_recipe
from tests.recipe.refusal import assert_refused


def only(**changes):
    return {"mode": "reward-only", "reward_only": changes}


@pytest.mark.parametrize(
    ("document", "field", "problem", "remedy"),
    [
        (only(experts=6), "reward_only.experts", "6 of 5 clients", "Use 5"),
        (only(auxiliary=10), "reward_only.nearest", "20 of 10", "Use 10"),
        (only(low=1.0), "reward_only.high", "not above low", "low = 0"),
        (only() | {"grpo": {"reward_weights": {"type": "fixed"}}}, "grpo.reward_weights", "single", "Leave"),
        (only() | {"grpo": {"shaping": {"dra": {"enabled": True}}}}, "grpo.shaping", "single", "Leave"),
        (only() | {"runtime": {"type": "flower"}}, "runtime.type", "", "local"),
    ],
)
def test_refused(document, field, problem, remedy):
    assert_refused(document, field, problem, remedy)


def test_other_modes_do_not_mind():
    assert load_recipe({"reward_only": {"experts": 6}}).mode == "federated"
