"""`[runtime]`: quorums and deadlines that cannot work are refused with a remedy."""

from __future__ import annotations

import math

import pytest

from hanse.recipe.load import dump_recipe, load_recipe
from hanse.recipe.model import RuntimeSpec
from hanse.recipe.runtime import DEADLINE_S
from tests.recipe.refusal import assert_refused

FLOWER = {"type": "flower"}
OWN = {
    "runtime": FLOWER,
    "partition": {"clients": 2, "by": "own"},
    "task": {"type": "jsonl", "path": "mine.jsonl", "held_out_path": "public.jsonl"},
    "policy": {"type": "hf", "path": "somewhere/model"},
    "rewards": [{"name": "exact"}],
}


@pytest.mark.parametrize(
    ("quorum", "wanted", "needed"),
    [(1, 5, 1), (3, 5, 3), (3, 2, 2), (1.0, 5, 5), (0.5, 5, 3), (0.6, 5, 3), (0.61, 5, 4), (0.1, 3, 1)],
)
def test_a_quorum_is_a_number_or_a_share(quorum, wanted, needed):
    assert RuntimeSpec(quorum=quorum).needed(wanted) == needed


@pytest.mark.parametrize("quorum", [1, 1.0, 0.5, 4])
def test_a_quorum_keeps_its_kind_in_a_recipe(quorum):
    recipe = load_recipe({"runtime": {"quorum": quorum}})
    again = load_recipe({"runtime": {"quorum": recipe.runtime.quorum}})
    assert type(again.runtime.quorum) is type(quorum)
    assert again.runtime.needed(5) == RuntimeSpec(quorum=quorum).needed(5)
    assert f"quorum = {quorum}\n" in dump_recipe(recipe)


def test_only_clients_elsewhere_are_waited_for():
    assert RuntimeSpec().deadline_in_force == math.inf
    assert RuntimeSpec(type="flower").deadline_in_force == DEADLINE_S
    assert RuntimeSpec(type="flower-simulation", deadline_s=2.5).deadline_in_force == 2.5


@pytest.mark.parametrize(
    ("document", "field", "problem", "remedy"),
    [
        ({"runtime": {"quorum": 6}}, "runtime.quorum", "the 5 clients of a round", "Use 5"),
        (
            {"runtime": {"quorum": 4}, "federation": {"participation": 0.6}},
            "runtime.quorum",
            "the 3 clients of a round",
            "Use 3",
        ),
        (
            {"runtime": FLOWER | {"over_select": 3}, "federation": {"participation": 0.6}},
            "runtime.over_select",
            "3 clients a round and 3 more are over the 5",
            "Use over_select = 2",
        ),
        ({"runtime": {"deadline_s": 5.0}}, "runtime.deadline_s", "may come late", "Leave it out"),
        (
            {"runtime": {"over_select": 1}, "federation": {"participation": 0.6}},
            "runtime.over_select",
            "may come late",
            "Leave it out",
        ),
        ({"runtime": FLOWER | {"workers": 2}}, "runtime.workers", "one machine", "Leave it out"),
        ({"runtime": FLOWER, "mode": "central"}, "runtime.type", 'mode is "central"', '"local"'),
        (
            {"runtime": {"patience": 2}, "mode": "local"},
            "runtime.patience",
            'mode is "local"',
            "Leave it out",
        ),
        (
            {"runtime": {"quorum": 2}, "mode": "central"},
            "runtime.quorum",
            'mode is "central"',
            "Leave it out",
        ),
        ({"partition": {"names": ["a"]}}, "partition.names", 'it is "iid"', 'partition.by = "own"'),
        (OWN | {"runtime": {}}, "partition.by", "leaves training problems with their owners", "flower"),
        (
            OWN | {"task": OWN["task"] | {"held_out_path": None}},
            "task.held_out_path",
            "sees no training file",
            "public problems",
        ),
        (
            OWN | {"task": {"type": "reasoning-gym", "generator": "gcd"}},
            "partition.by",
            'task.type is "reasoning-gym"',
            "jsonl",
        ),
        (
            OWN | {"partition": {"clients": 2, "by": "own", "names": ["a"]}},
            "partition.names",
            "1 names for 2 clients",
            "Give 2 names",
        ),
        (
            OWN | {"partition": {"clients": 2, "by": "own", "names": ["a", "a"]}},
            "partition.names",
            "a name twice",
            "differently",
        ),
    ],
)
def test_refused(document, field, problem, remedy):
    assert_refused(document, field, problem, remedy)


LATE = {"type": "flower", "late": "weigh"}
LORA = {"train": "lora"}


@pytest.mark.parametrize(
    ("document", "field", "problem", "remedy"),
    [
        ({"runtime": FLOWER | {"staleness": 1.0}}, "runtime.staleness", 'it is "discard"', '"weigh"'),
        ({"runtime": FLOWER | {"stale_rounds": 3}}, "runtime.stale_rounds", 'it is "discard"', '"weigh"'),
        ({"runtime": {"late": "weigh"}}, "runtime.late", "may come late", '"flower-simulation"'),
        ({"runtime": {"late": "weigh"}, "mode": "central"}, "runtime.late", 'mode is "central"', "Leave it"),
        (
            {"federation": {"secure": {"enabled": True}}},
            "federation.secure.enabled",
            "opens nothing",
            'late = "discard"',
        ),
        (
            {"federation": {"robust": {"rule": "median", "byzantine": 1}}},
            "federation.robust.rule",
            "among the uploads of one round",
            'rule = "none"',
        ),
        ({"federation": {"local": "scaffold"}}, "federation.local", '"scaffold" sends vectors', '"fednova"'),
        ({"federation": {"local": "fedadamw"}}, "federation.local", '"fedadamw" sends vectors', '"plain"'),
        (
            {"federation": {"aggregation": "rolora"}, "policy": LORA},
            "federation.aggregation",
            "lets factors rest",
            '"ffa"',
        ),
        (
            {"federation": {"aggregation": "fedex"}, "policy": LORA},
            "federation.aggregation",
            "products of factors",
            '"mean"',
        ),
        (
            {"federation": {"budget": {"fraction": 0.1}}},
            "federation.budget.share",
            "a budget of one round",
            'share = "own"',
        ),
    ],
)
def test_late_uploads_are_weighed_only_where_that_can_hold(document, field, problem, remedy):
    assert_refused({"runtime": LATE} | document, field, problem, remedy)


@pytest.mark.parametrize(
    "federation",
    [
        {},
        {"local": "fedprox"},
        {"local": "fednova"},
        {"aggregation": "sign-consensus"},
        {"budget": {"fraction": 0.1, "share": "own"}},
        {"weighting": "reward-std", "server_optimizer": "adam"},
    ],
)
def test_late_uploads_are_weighed_elsewhere(federation):
    assert load_recipe({"runtime": LATE, "federation": federation}).runtime.weighs_late


def test_clients_with_their_own_data_have_names():
    named = OWN | {"partition": {"clients": 2, "by": "own", "names": ["north", "south"]}}
    assert load_recipe(OWN).partition.own_names == ["client-1", "client-2"]
    assert load_recipe(named).partition.own_names == ["north", "south"]
