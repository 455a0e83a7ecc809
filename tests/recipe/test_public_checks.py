from __future__ import annotations

import pytest

from hanse.recipe.load import load_recipe
from hanse.recipe.public import PublicSpec
from hanse.recipe.stillness import still_without_signal
from tests.recipe.refusal import assert_refused

FIELD = "federation.public"


def with_public(federation=None, public=None, **sections):
    own = {"problems": 64, **(public or {})}
    return {"federation": {"public": own, **(federation or {})}, **sections}


@pytest.mark.parametrize(
    ("document", "field", "problem", "remedy"),
    [
        (with_public(mode="local"), FIELD, 'mode = "local"', "every = 0"),
        (with_public(mode="central"), FIELD, 'mode = "central"', '"federated"'),
        (with_public(mode="swarm"), FIELD, 'mode = "swarm"', '"federated"'),
        (with_public(runtime={"type": "flower"}), "runtime.type", "between two messages", '"local"'),
        (with_public(runtime={"type": "flower-simulation"}), "runtime.type", "messages", '"local"'),
        (with_public(public={"path": "x.jsonl"}), f"{FIELD}.path", "one source", "Keep problems"),
        (with_public(public={"per_round": 65}), f"{FIELD}.per_round", "65 of 64", "Use 64"),
        (with_public(public={"most": 9}), f"{FIELD}.most", "9 of the 8", "Use 4"),
        (
            with_public(grpo={"mini_batches": 16}, public={"per_round": 20}),
            f"{FIELD}.per_round",
            "16",
            "Use 32",
        ),
        (
            with_public(federation={"screening": {"reward_range": [0.0, 0.5]}}),
            f"{FIELD}.correct",
            "no reward is 1",
            "Use 0.5",
        ),
        (with_public(partition={"clients": 1}), f"{FIELD}.most", "no peers", "most = 0"),
        (
            with_public(privacy={"enabled": True, "epsilon": 8.0}, federation={"weighting": "uniform"}),
            "privacy.enabled",
            "no account",
            "Leave it out",
        ),
        (
            with_public(federation={"secure": {"enabled": True}}),
            "federation.secure.enabled",
            "answers",
            "Leave",
        ),
        (with_public(adversary={"clients": [0], "attack": "zero"}), "adversary.clients", "attacks", "Leave"),
        (with_public(grpo={"shaping": {"dra": {"enabled": True}}}), "grpo.shaping", "mixed", "Leave"),
        (with_public(grpo={"reward_weights": {"type": "fixed"}}), "grpo.reward_weights", "", "Leave"),
    ],
)
def test_refused(document, field, problem, remedy):
    assert_refused(document, field, problem, remedy)


def test_a_public_part_that_is_never_used_is_none():
    off = {"public": {"problems": 64, "every": 0}}
    assert load_recipe({"mode": "local", "federation": off}).federation.public.on is False
    assert load_recipe({"federation": {"public": {"most": 4}}}).federation.public.on is False


def test_which_rounds_have_a_public_step():
    spec = PublicSpec(problems=8, every=4)
    assert [r for r in range(1, 13) if spec.due(r)] == [4, 8, 12]
    assert [spec.steps(n) for n in (3, 4, 11, 12)] == [0, 1, 2, 3]
    assert spec.swaps(4) and not spec.model_copy(update={"most": 0}).swaps(4)
    assert not any(PublicSpec(every=1).due(r) for r in range(1, 5))


def test_a_client_without_signal_of_its_own_may_move():
    assert still_without_signal(load_recipe({}))
    assert not still_without_signal(load_recipe(with_public()))
