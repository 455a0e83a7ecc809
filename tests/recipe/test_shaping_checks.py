"""Shaping of rewards: what is refused, what is noted, where files are looked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hanse.recipe.advice import advice
from hanse.recipe.load import dump_recipe, load_recipe
from tests.recipe.refusal import assert_refused

DRA = {"dra": {"enabled": True}}
BOT = {"bot": {"enabled": True}}
POPULATION = {"scale": "group_population"}
CHAT = {"url": "http://localhost:1", "model": "m"}


def grpo(shaping: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"grpo": {"shaping": shaping} | others}


@pytest.mark.parametrize(
    ("document", "field", "problem", "remedy"),
    [
        (grpo(DRA) | {"mode": "swarm"}, "grpo.shaping", "nodes of a swarm", 'mode = "federated"'),
        (grpo(DRA, screening="fresh"), "grpo.screening", "first look", '"joined"'),
        (grpo(BOT), "grpo.scale", '"group" is not the deviation of a bag', '"group_population"'),
        (grpo(BOT, scale="batch"), "grpo.scale", '"batch" is not', '"none"'),
        (
            grpo(BOT, **POPULATION, baseline="leave_one_out"),
            "grpo.baseline",
            "one mean",
            'baseline = "mean"',
        ),
        (grpo(BOT, **POPULATION, objective="gspo"), "grpo.objective", "one ratio a completion", '"grpo"'),
        (grpo(BOT, **POPULATION, objective="rloo"), "grpo.objective", "one ratio a completion", '"dapo"'),
        (
            grpo({"bot": {"enabled": True, "global_weight": 0.0, "local_weight": 0.0}}, **POPULATION),
            "grpo.shaping.bot.global_weight",
            "no token is rewarded",
            "value",
        ),
        (
            grpo({"bot": {"enabled": True, "judge": "chat"}}, **POPULATION),
            "grpo.shaping.bot.chat",
            "needs a model to ask",
            "[grpo.shaping.bot.chat]",
        ),
        (
            grpo({"consensus": {"enabled": True}}),
            "grpo.shaping.consensus.nodes",
            "required",
            "hanse consensus build",
        ),
        (
            grpo({"dra": {"enabled": True, "embedder": "sentence-transformers"}}),
            "grpo.shaping.dra.model",
            "required",
            "folder",
        ),
        (
            grpo({"dra": {"enabled": True, "embedder": "minilm", "model": "x"}}),
            "grpo.shaping.dra.model",
            "loads no model",
            "leave model out",
        ),
        (grpo({"dra": {"enabled": 1}}), "grpo.shaping.dra.enabled", "true or false", "enabled"),
        (grpo({"dar": {}}), "grpo.shaping.dar", "unknown key", "Did you mean dra?"),
    ],
)
def test_refused(document: dict[str, Any], field: str, problem: str, remedy: str) -> None:
    assert_refused(document, field, problem, remedy)


@pytest.mark.parametrize(
    "document",
    [
        grpo(DRA),
        grpo({"bot": {"local_weight": 0.1}}, scale="batch"),
        grpo(BOT, scale="none", objective="dr_grpo"),
        grpo({"bot": {"enabled": True, "judge": "chat", "chat": CHAT}}, **POPULATION),
        grpo(DRA | BOT | {"consensus": {"enabled": True, "nodes": "n.json"}}, **POPULATION),
    ],
)
def test_allowed_and_read_back(document: dict[str, Any]) -> None:
    import tomllib

    loaded = load_recipe({"mode": "central"} | document)
    assert load_recipe(tomllib.loads(dump_recipe(loaded))) == loaded


@pytest.mark.parametrize(
    ("document", "note"),
    [
        (grpo(DRA, scale="none"), "divides every advantage by up to 8"),
        (grpo({"dra": {"enabled": True, "skip_equal": False}}), "a group of equal rewards"),
        (grpo(BOT, **POPULATION, dynamic_sampling=True), "before shaping"),
        (grpo({"bot": {"enabled": True, "chat": CHAT}}, **POPULATION), "has no effect"),
    ],
)
def test_noted(document: dict[str, Any], note: str) -> None:
    assert any(note in one for one in advice(load_recipe(document)))
    assert not any("shaping" in one for one in advice(load_recipe({})))


def test_node_files_count_from_the_recipe_s_folder(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text('[grpo.shaping.consensus]\nnodes = "n.json"\n[evaluation]\nnodes = "m.json"\n')
    loaded = load_recipe(path)
    assert loaded.grpo.shaping.consensus.nodes == str(tmp_path / "n.json")
    assert loaded.evaluation.nodes == str(tmp_path / "m.json")
