"""Whole runs of mode "reward-model": the same bits again and after a stop, and the model as a reward."""

from __future__ import annotations

import json

import pytest

import hanse
from hanse.errors import RecipeError, RunError
from hanse.recipe.load import load_recipe
from hanse.reward_model.folder import load_reward_model
from hanse.runs.api import evaluate, export
from hanse.runs.reward_model import labels_of
from hanse.runtime.host import client_data
from hanse.tasks.build import recipe_task
from tests.end_to_end.small import StopAfter, without_times
from tests.reward_model.made import POLICY, TASK, make_recipe, make_task

METHODS = ("fedavg", "debiased", "oracle", "clustered")


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HANSE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    recipe = make_recipe([4, 2], local_steps=4, groups=2)
    return hanse.train(recipe, out=tmp_path_factory.mktemp("runs"))


def test_a_run_tells_accuracy_before_and_after_groups_and_distance(finished):
    told, final = finished.summary["reward_model"], finished.summary["evaluation"]["final"]
    assert set(final["by_level"]) == {"0", "1"}
    assert final["worst_level"] == min(final["by_level"].values())
    assert final["accuracy"] == pytest.approx(sum(final["by_level"].values()) / 2)
    assert finished.summary["evaluation"]["initial"]["accuracy_greedy"] == 0.5  # nothing is preferred yet
    assert told["distance"] == pytest.approx(sum(map(abs, told["margin"].values())) / 2)
    rows = finished.metrics()
    assert rows[-1]["reward_model/rand_index"] == told["rand_index"]
    assert rows[-1]["comm/bytes_up"] > 6 * 4 * 1000
    assert (finished.folder / "report.html").is_file()
    assert "after 4 local steps" in (finished.folder / "policy" / "README.md").read_text()


def test_eval_says_what_the_summary_says(finished):
    again = evaluate(finished.folder)
    assert again["accuracy"] == finished.summary["evaluation"]["final"]["accuracy"]
    assert again["accuracy_greedy"] == finished.summary["evaluation"]["final"]["accuracy_greedy"]


@pytest.mark.parametrize("method", METHODS)
def test_stopped_and_resumed_is_uninterrupted(method, tmp_path):
    recipe = make_recipe([2, 1], "federation.participation=0.7", method=method, groups=2)
    whole = hanse.train(recipe, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        hanse.train(recipe, out=tmp_path / "cut", progress=StopAfter(2))
    (folder,) = (tmp_path / "cut").iterdir()
    resumed = hanse.resume(folder)
    assert resumed.summary["policy_sha256"] == whole.summary["policy_sha256"]
    assert without_times(resumed.metrics()) == without_times(whole.metrics())
    for name in ("evaluation", "reward_model", "bytes"):
        assert resumed.summary[name] == whole.summary[name]
    models = len(list((whole.folder / "policy").rglob("reward_model.json")))
    assert models == (2 if method in ("oracle", "clustered") else 1)


def test_an_exported_model_loads(finished, tmp_path):
    copied = export(finished.folder, tmp_path / "out")
    model, settings = load_reward_model(copied, "cpu")
    assert settings["local_steps"] == 4
    assert model.parameters.sha256() == finished.summary["policy_sha256"]
    with pytest.raises(RunError, match="merge"):
        export(finished.folder, tmp_path / "merged", merge=True)


def grpo_recipe(folder, pairs, *overrides):
    document = {
        "name": "rewarded",
        "mode": "central",
        "rounds": 2,
        "policy": {"type": "tiny", **POLICY},
        "task": {"type": "synthetic-preferences", "clients": [1, 1], **TASK},
        "rewards": [
            {"type": "reward-model", "path": str(folder), "arguments": {"pairs": pairs, "device": "cpu"}}
        ],
        "partition": {"clients": 1},
        "grpo": {
            "group_size": 8,
            "prompts_per_step": 4,
            "local_steps": 5,
            "max_new_tokens": 6,
            "lr": 1e-2,
        },
        "evaluation": {"problems_per_level": 4, "final_problems_per_level": 16, "level_column": "group"},
    }
    return load_recipe(document, overrides)


def test_the_model_plugs_in_as_a_reward_that_a_policy_learns_from(finished, tmp_path):
    """One's own pairs say which tone is meant; the policy then writes what scores higher."""

    pairs = tmp_path / "mine.jsonl"
    mine = make_task(clients=[1], pairs=32, seed=3).problems("train")
    rows = [{"prompt": p.prompt, **{k: p.metadata[k] for k in ("chosen", "rejected")}} for p in mine]
    pairs.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    recipe = grpo_recipe(finished.policy, str(pairs))
    run = hanse.train(recipe, out=tmp_path / "runs")
    evaluation = run.summary["evaluation"]
    assert evaluation["final"]["accuracy"] > evaluation["initial"]["accuracy"]
    assert evaluation["final"]["unscored"] == 0


def test_a_reward_model_that_is_not_there_is_told_before_anything_runs(tmp_path):
    with pytest.raises(RecipeError) as caught:
        hanse.train(grpo_recipe(tmp_path / "nothing", "pairs.jsonl"), out=tmp_path / "runs")
    assert caught.value.field == "rewards[0]"
    assert not list((tmp_path / "runs").iterdir())


def test_pairs_without_groups_have_no_oracle(tmp_path):
    rows = [
        {"prompt": f"{i} + 1 =", "chosen": "so 1", "rejected": "so 2", "client": "ab"[i % 2]}
        for i in range(40)
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    document = {
        "mode": "reward-model",
        "policy": {"type": "hf", "path": str(tmp_path / "none")},
        "task": {"type": "preferences", "path": str(path)},
        "partition": {"clients": 2, "by": "column", "column": "client"},
        "reward_model": {"method": "oracle"},
        "evaluation": {"level_column": "group"},
    }
    recipe = load_recipe(document)
    with pytest.raises(RecipeError, match="one group only"):
        labels_of(recipe, client_data(recipe, recipe_task(recipe)))
