"""Whole runs of a swarm: what holds whoever lies, and however nodes are computed."""

from __future__ import annotations

import json
from typing import Any

import pytest

import hanse
from hanse.errors import RecipeError
from hanse.recipe.load import load_recipe
from hanse.recipe.model import Recipe
from tests.end_to_end.small import StopAfter, small_recipe, without_times

_TIMES = ("swarm/seconds/",)


def swarm_recipe(*overrides: str, **swarm: Any) -> Recipe:
    return small_recipe(
        "grpo.local_steps=1",
        "grpo.scale=group_population",
        *overrides,
        mode="swarm",
        swarm={"nodes": 4, **swarm},
    )


def _tiny(seed: int) -> dict[str, Any]:
    warmup = small_recipe().policy.model_dump()["warmup"]
    return {"type": "tiny", "hidden": 16, "layers": 1, "heads": 2, "seed": seed, "warmup": warmup}


def rows(run: Any, kind: str = "round") -> list[dict[str, Any]]:
    return [
        {k: v for k, v in r.items() if not k.startswith(_TIMES)} for r in without_times(run.metrics(kind))
    ]


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    return hanse.train(swarm_recipe(), out=tmp_path_factory.mktemp("clean"))


def test_a_clean_swarm_learns_and_rejects_nobody(clean):
    assert clean.summary["swarm"]["honest_rejects"] == 0
    assert clean.summary["swarm"]["refused_bundles"] == 0
    assert all(row["grad_norm"] > 0 for row in rows(clean)[1:])
    assert clean.summary["bytes"]["up"] > 0


@pytest.mark.parametrize("topology", ["horizontal", "vertical"])
def test_nodes_computed_once_or_each_have_the_same_bits(topology, tmp_path):
    lying = {"adversary": {"nodes": [2], "completions": {"type": "dos", "candidates": 3}}}
    runs = [
        hanse.train(
            small_recipe(
                "grpo.local_steps=1",
                mode="swarm",
                swarm={"nodes": 4, "topology": topology, "replicas": replicas, "defences": []},
                **lying,
            ),
            out=tmp_path,
        )
        for replicas in ("once", "each")
    ]
    assert runs[0].summary["policy_sha256"] == runs[1].summary["policy_sha256"]
    assert rows(runs[0]) == rows(runs[1])


def test_all_replicas_of_a_swarm_stay_the_same(tmp_path):
    from safetensors.torch import load_file

    run = hanse.train(swarm_recipe(replicas="each"), out=tmp_path)
    newest = sorted((run.folder / "rounds").iterdir())[-1]
    first, *others = [load_file(newest / f"replica-{i:04d}.safetensors") for i in range(4)]
    for other in others:
        assert all(bool((first[name] == other[name]).all()) for name in first)


@pytest.mark.parametrize("attack", ["dos", "free-rider"])
def test_resumed_equals_uninterrupted(attack, tmp_path):
    lying = {"adversary": {"nodes": [1], "completions": {"type": attack, "candidates": 3}}}

    def recipe() -> Recipe:
        base = {"nodes": 4, "defences": [{"type": "assignment"}, {"type": "reputation"}]}
        return small_recipe("grpo.local_steps=1", mode="swarm", swarm=base, **lying)

    whole = hanse.train(recipe(), out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        hanse.train(recipe(), out=tmp_path / "cut", progress=StopAfter(2))
    (folder,) = (tmp_path / "cut").iterdir()
    resumed = hanse.resume(folder)
    assert resumed.summary["policy_sha256"] == whole.summary["policy_sha256"]
    assert resumed.summary["swarm"] == whole.summary["swarm"]
    assert rows(resumed) == rows(whole)
    assert (folder / "exchange.jsonl").read_text() == (whole.folder / "exchange.jsonl").read_text()


def test_garbage_ends_no_round_and_is_counted(tmp_path):
    recipe = small_recipe(
        "grpo.local_steps=1",
        "rounds=8",
        mode="swarm",
        swarm={"nodes": 4},
        adversary={"nodes": [0, 3], "completions": {"type": "garbage"}},
    )
    run = hanse.train(recipe, out=tmp_path)
    assert run.summary["rounds"] == 8
    assert run.summary["swarm"]["refused_bundles"] > 0
    assert run.summary["counters"]["refused_bundles"] == run.summary["swarm"]["refused_bundles"]
    assert run.summary["swarm"]["honest_rejects"] == 0


@pytest.mark.parametrize(
    "swarm",
    [
        {"topology": "vertical", "prompts": "chosen"},
        {"rebaseline": 2},
        {"topology": "vertical", "external": 1},
        {"policies": [_tiny(5), _tiny(6)]},
    ],
    ids=["chosen", "rebaseline", "mixing", "two-policies"],
)
def test_every_kind_of_swarm_runs(swarm, tmp_path):
    run = hanse.train(swarm_recipe("rounds=2", **swarm), out=tmp_path)
    assert run.summary["rounds"] == 2
    last = rows(run)[-1]
    assert last["grad_norm"] > 0
    assert (run.folder / "policy").is_dir()
    json.loads((run.folder / "summary.json").read_text())


def test_nodes_with_policies_of_their_own_end_apart(tmp_path):
    run = hanse.train(swarm_recipe("rounds=2", topology="vertical", external=1), out=tmp_path)
    hashes = run.summary["policy_sha256"]
    assert len(hashes) == 4 and len(set(hashes.values())) == 4


@pytest.mark.parametrize(
    ("overrides", "swarm", "field"),
    [
        (["grpo.local_steps=2"], {}, "grpo.local_steps"),
        (["grpo.group_size=6"], {}, "grpo.group_size"),
        ([], {"prompts": "chosen"}, "swarm.prompts"),
        ([], {"external": 1}, "swarm.external"),
        (["grpo.dynamic_sampling=true"], {}, "grpo.dynamic_sampling"),
        ([], {"defences": [{"type": "top-k"}]}, "swarm.defences.0.k"),
        ([], {"defences": [{"type": "steps"}]}, "swarm.defences.0.type"),
        (
            [],
            {"topology": "vertical", "external": 1, "defences": [{"type": "replay"}]},
            "swarm.defences.0.type",
        ),
        (["runtime.workers=2"], {}, "runtime.workers"),
        ([], {"policies": [{"type": "tiny", "hidden": 15}]}, "swarm.policies.0.hidden"),
        (["grpo.max_new_tokens=8"], {"defences": [{"type": "length", "limit": 9}]}, "swarm.defences.0.limit"),
        (
            [],
            {"defences": [{"type": "top-k", "k": 5}, {"type": "length"}, {"type": "top-k", "k": 6}]},
            "swarm.defences.2.k",
        ),
    ],
)
def test_impossible_swarms_are_refused(overrides, swarm, field):
    with pytest.raises(RecipeError) as caught:
        swarm_recipe(*overrides, **swarm)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"swarm": {"defences": [{"type": "steps"}]}}, "swarm.defences.0.type"),  # programs have no rationale
        ({"adversary": {"completions": {"trigger": " "}}}, "adversary.completions.trigger"),  # is everywhere
        ({"swarm": {"defences": [{"type": "policy", "staleness": 8}]}}, "swarm.defences.0.staleness"),
    ],
)
def test_what_would_mean_nothing_is_refused(changes, field):
    document = {
        "mode": "swarm",
        "task": {"type": "worked-sums", "form": "program"},
        "grpo": {"max_new_tokens": 80, "local_steps": 1},
    }
    with pytest.raises(RecipeError) as caught:
        load_recipe(document | changes)
    assert caught.value.field == field


def test_nodes_of_different_policies_draw_from_the_same_problems(monkeypatch):
    """Each tokenizer lets other prompts pass."""
    from hanse.runs import swarm as room
    from hanse.tasks.build import build_task

    def all_but_one(problems, policy, limit, whose):
        return [p for p in problems if len(p.id) % 7 != policy.parameters.numel % 7]

    monkeypatch.setattr(room, "fitting", all_but_one)
    policies = [{**_tiny(1), "hidden": 16}, {**_tiny(2), "hidden": 32}]
    recipe = swarm_recipe(policies=policies)
    training = room.SwarmTraining(recipe, None, build_task(recipe.task))
    first, *others = [set(replica.problems) for replica in training.replicas]
    assert first and all(other == first for other in others)
