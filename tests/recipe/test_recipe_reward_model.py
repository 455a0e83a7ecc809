"""What mode "reward-model" refuses, and reward models as rewards."""

from __future__ import annotations

import copy
import tomllib
from typing import Any

import pytest

from hanse.recipe.load import dump_recipe, load_recipe
from tests.recipe.refusal import assert_refused

DOCUMENT: dict[str, Any] = {
    "mode": "reward-model",
    "task": {"type": "synthetic-preferences", "clients": [2, 2]},
    "partition": {"clients": 4, "by": "column", "column": "client"},
}


def document(**changes: Any) -> dict[str, Any]:
    made = copy.deepcopy(DOCUMENT)
    for section, values in changes.items():
        made[section] = made[section] | values if isinstance(made.get(section), dict) else values
    return made


def test_it_loads_and_comes_back():
    recipe = load_recipe(document(reward_model={"method": "clustered", "groups": 2, "adaptation_steps": 3}))
    assert recipe.reward_model.adaptation == 3
    assert load_recipe(DOCUMENT).reward_model.adaptation == 8
    assert recipe.reward_model.several and not load_recipe(DOCUMENT).reward_model.several

    assert load_recipe(tomllib.loads(dump_recipe(recipe))) == recipe


CASES: list[tuple[dict[str, Any], str, str, str]] = [
    (
        {"task": {"type": "arithmetic", "clients": None}},
        "task.type",
        "learns from preferences",
        "preferences",
    ),
    ({"rewards": [{"name": "exact"}]}, "rewards", "preferences alone", "Leave them out"),
    ({"partition": {"by": "iid"}}, "partition.by", "who labelled it", 'by = "column"'),
    ({"partition": {"column": "level"}}, "partition.column", "no client", 'column = "client"'),
    ({"partition": {"clients": 5}}, "partition.clients", "adds up to 4", "clients = 4"),
    ({"federation": {"local": "scaffold"}}, "federation.local", "is not for mode", "participation"),
    ({"federation": {"secure": {"enabled": True}}}, "federation.secure", "is not for mode", "Leave it out"),
    ({"federation": {"weighting": "reward-std"}}, "federation.weighting", "rests on rewards", "uniform"),
    (
        {"reward_model": {"method": "fedavg", "known_groups": True}},
        "reward_model.known_groups",
        'method = "fedavg"',
        "debiased",
    ),
    (
        {"reward_model": {"method": "clustered", "groups": 1}},
        "reward_model.groups",
        "everybody",
        "groups = 2",
    ),
    (
        {"reward_model": {"train": "head"}, "policy": {"type": "tiny", "train": "lora"}},
        "reward_model.train",
        "adapters would stay",
        'train = "full"',
    ),
    ({"policy": {"type": "tiny", "dtype": "bfloat16"}}, "policy.dtype", "head is float32", "float32"),
    ({"runtime": {"workers": 2}}, "runtime.workers", "one process", "Set it to 1"),
    ({"task": {"attributes": ["tone", "tone"]}}, "task.attributes", "one twice", "once"),
    (
        {"task": {"clients": [1, 1, 2]}},
        "task.clients",
        "2 different tastes, not 3",
        "more attributes",
    ),
]


@pytest.mark.parametrize(("changes", "field", "problem", "remedy"), CASES)
def test_refused(changes, field, problem, remedy):
    made = document(**changes)
    if made["task"].get("clients") is None:
        made |= {"task": {"type": "arithmetic"}, "partition": {"clients": 5, "by": "iid"}}
    assert_refused(made, field, problem, remedy)


def test_preferences_have_no_right_answers():
    assert_refused(document(mode="federated"), "rewards", "no right answers", 'type = "reward-model"')


def with_reward(**reward: Any) -> dict[str, Any]:
    return document(mode="central", rewards=[{"type": "reward-model", **reward}])


def test_a_reward_model_needs_a_folder_and_nothing_of_functions():
    assert_refused(with_reward(), "rewards.0.path", "without a path", "policy")
    assert_refused(with_reward(path="x", name="exact"), "rewards.0.name", "about functions", "Leave it out")
    assert_refused(with_reward(path="x", style="verl"), "rewards.0.style", "about functions", "Leave it out")


def test_paths_count_from_the_recipes_folder(tmp_path):
    text = (
        'mode = "central"\n[task]\ntype = "synthetic-preferences"\n[[rewards]]\ntype = "reward-model"\n'
        'path = "model"\narguments = { pairs = "mine.jsonl" }\n'
    )
    path = tmp_path / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    (reward,) = load_recipe(path).rewards
    assert reward.path == str((tmp_path / "model").resolve())
    assert reward.arguments == {"pairs": str((tmp_path / "mine.jsonl").resolve())}
