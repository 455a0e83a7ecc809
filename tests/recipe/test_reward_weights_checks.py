from __future__ import annotations

import pytest

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
