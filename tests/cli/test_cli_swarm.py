"""`hanse check` on a swarm: who writes how much, what is believed, who lies, what travels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hanse.cli import app
from hanse.cli.estimate import traffic
from hanse.cli.sizes import Sizes
from hanse.cli.swarm import replicas, slots, trust
from hanse.recipe.load import load_recipe
from hanse.recipe.model import Recipe
from hanse.recipe.swarm_defaults import COARSE, defences_in_force

TEXT = """
mode = "swarm"
rounds = 10
[grpo]
lr = 1e-3
group_size = 8
prompts_per_step = 8
local_steps = 1
max_new_tokens = 32
[swarm]
nodes = 4
[adversary]
nodes = [3]
control = true
"""


def recipe(tmp_path: Path, *overrides: str) -> Recipe:
    path = tmp_path / "recipe.toml"
    path.write_text(TEXT)
    return load_recipe(path, overrides)


def checked(tmp_path: Path, *options: str) -> str:
    recipe(tmp_path)
    result = CliRunner().invoke(app, ["check", str(tmp_path / "recipe.toml"), *options])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_swarm_in_words(tmp_path: Path) -> None:
    output = " ".join(checked(tmp_path).split())
    assert "8 problems × 8 completions = 64 completions, up to 32 tokens each" in output
    assert "64 / 4 nodes = 16 slots, 2 completions of each problem." in output
    assert "Defences: assignment, policy, length, replay, assignment." in output
    assert "Liars: node-3 (25.0%) by text, with the answers. A control without them" in output
    assert "client-1" not in output and "server" not in output.split("Batch A round")[1]


def test_a_vertical_swarm_without_liars(tmp_path: Path) -> None:
    wanted = ['swarm.topology="vertical"', 'swarm.prompts="chosen"', "adversary.nodes=[]"]
    options = [part for one in [*wanted, "adversary.control=false"] for part in ("--set", one)]
    output = " ".join(checked(tmp_path, *options).split())
    assert "16 slots, 2 whole groups, which it chooses." in output
    assert "Liars: none." in output and "control/" not in output


def test_traffic_is_what_bundles_may_weigh(tmp_path: Path) -> None:
    sends, receives, whole = traffic(recipe(tmp_path), Sizes(1, 1, 14, 1))
    assert sends.size == 16 * (32 * 8 + 160)
    assert receives.size == 3 * sends.size and whole.size == 4 * 10 * sends.size
    assert re.search(r"a node sends, a round +6\.66 kB", checked(tmp_path))


@pytest.mark.slow
def test_what_nodes_send_is_within_the_estimate(tmp_path: Path) -> None:
    import hanse
    from tests.end_to_end.small import small_recipe

    small = small_recipe(mode="swarm", rounds=1, grpo={"local_steps": 1}, swarm={"nodes": 2})
    run = hanse.train(small, out=tmp_path)
    most = traffic(small, Sizes(1, 1, 14, 1))[2].size
    assert 0.4 * most < run.summary["bytes"]["up"] <= 1.1 * most  # commitments come on top


def test_several_policies_send_text_and_are_held_apart(tmp_path: Path) -> None:
    mixed = recipe(tmp_path, "swarm.external=1", 'swarm.topology="vertical"')
    assert replicas(mixed) == 4 and replicas(recipe(tmp_path)) == 1 and slots(mixed) == 16
    assert traffic(mixed, Sizes(1, 1, 14, 1))[0].size == 16 * (32 * 4 + 160)
    assert "Defences: assignment, length, duplicates, lengths." in trust(mixed)


def test_without_defences_everything_is_believed(tmp_path: Path) -> None:
    none = trust(recipe(tmp_path, 'swarm.defences="none"'))
    assert "Defences: none, every completion is believed." in none
    own = trust(recipe(tmp_path, 'swarm.defences=[{type="length", on_reject="mask"}]'))
    assert "Defences: length (mask)." in own


def test_replay_is_coarser_where_a_policy_computes_in_bfloat16(tmp_path: Path) -> None:
    spec = recipe(tmp_path).swarm
    chain, loose = defences_in_force(spec), defences_in_force(spec, exact=False)
    assert [one.type for one in chain] == ["assignment", "policy", "length", "replay", "assignment"]
    fine, coarse = chain[-2], loose[-2]
    assert (fine.type, coarse.type) == ("replay", "replay")
    assert fine.tolerance < coarse.tolerance == COARSE  # type: ignore[union-attr]
    assert fine.ties < coarse.ties and chain[-1].missing < loose[-1].missing  # type: ignore[union-attr]
