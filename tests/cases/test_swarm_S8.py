"""Field case S8: poisoned completions with right answers teach arbitrary tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest

import hanse
from hanse.recipe.load import load_recipe


def attacked(defences: str, out: Any) -> Any:
    document = {
        "name": "s8",
        "mode": "swarm",
        "rounds": 3,
        "policy": {"type": "tiny", "hidden": 16, "layers": 1, "heads": 2, "intermediate": 32},
        "task": {"type": "worked-sums", "lessons": {"max_steps": 4, "until_accuracy": 1.0}},
        "grpo": {
            "group_size": 4,
            "prompts_per_step": 8,
            "local_steps": 1,
            "max_new_tokens": 41,
            "top_k": 5,
            "lr": 1e-3,
        },
        "swarm": {"nodes": 4, "defences": defences},
        "adversary": {"nodes": [3], "completions": {"type": "text"}},
        "evaluation": {"problems_per_level": 2, "final_problems_per_level": 2, "final_samples": 1},
    }
    return hanse.train(load_recipe(document), out=out)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return {name: attacked(name, tmp_path_factory.mktemp(name)) for name in ("none", "default")}


def test_s8_undefended_every_lie_is_rewarded_and_believed(runs):
    assert runs["none"].summary["swarm"]["attack_accepted"] == 1


def test_s8_defended_none_is_and_no_honest_completion_is_lost(runs):
    told = runs["default"].summary["swarm"]
    assert told["attack_accepted"] == 0
    assert told["honest_rejects"] == 0


def test_s8_where_a_completion_came_from_and_why_it_was_rejected_is_on_record(runs):
    rows = [json.loads(line) for line in (runs["default"].folder / "exchange.jsonl").open()]
    lies = [row for row in rows if row["lies"]]
    assert lies
    assert {(row["node"], row["standing"], row["rejected_by"]) for row in lies} == {
        ("node-3", "dropped", "replay")
    }
    assert all(row["reward"] == 1 and row["success"] for row in lies)


def test_s8_attack_success_is_measured_on_honest_nodes(runs):
    assert runs["none"].summary["swarm"]["attack_success"] is not None
