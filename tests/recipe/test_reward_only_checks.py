from __future__ import annotations

import pytest

from hanse.recipe.advice import advice
from hanse.recipe.load import load_recipe
from tests.recipe.refusal import assert_refused

OTHER = {"reward_only": {"experts": 6}}


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
        (only() | {"federation": {"codec": "fast"}}, "federation.codec", "no effect", "Leave"),
        (only() | {"federation": {"secure": {"enabled": True}}}, "federation.secure", "no effect", "Leave"),
        (only() | {"swarm": {"nodes": 3}}, "swarm.nodes", "no effect", "Leave"),
        (only() | {"reward_model": {"method": "fedavg"}}, "reward_model.method", "no effect", "Leave"),
        (only() | {"privacy": {"enabled": True, "epsilon": 8.0}}, "privacy.enabled", "completions", "local"),
        (only() | {"grpo": {"allocation": "variance"}}, "grpo.allocation", "own problems", "uniform"),
        (only(choice="random", nearest=3), "reward_only.nearest", "nobody is examined", "competence"),
        (only(models=["a"]), "reward_only.models", "1 folders for 5", "one a client"),
        (only(models=["a"] * 5, own_steps=1), "reward_only.own_steps", "no other trains", "one of the two"),
        (only(auxiliary=1 << 17), "reward_only.auxiliary", "", ""),
        (only() | {"rewards": [{"name": "length"}]}, "rewards.0.name", "as text", "of your own"),
        (
            only() | {"rewards": [{"type": "reward-model", "path": "x"}]},
            "rewards.0.type",
            "no bounds",
            "reward_only.models",
        ),
        (
            only()
            | {
                "task": {"type": "preferences", "path": "x"},
                "rewards": [{"name": "exact"}],
                "policy": {"type": "hf", "path": "x"},
            },
            "task.type",
            "has none",
            "answers",
        ),
    ],
)
def test_refused(document, field, problem, remedy):
    assert_refused(document, field, problem, remedy)


def test_other_modes_are_told_that_it_has_no_effect():
    assert any(note.startswith("reward_only.experts: no effect") for note in advice(load_recipe(OTHER)))
    assert not any("reward_only" in note for note in advice(load_recipe({})))
