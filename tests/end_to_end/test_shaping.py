"""Shaping in whole runs: what must change nothing changes no bit, signals stay raw, builds go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hanse
from hanse.errors import RecipeError, RunError
from hanse.grpo.shaping.consensus.nodes import Node
from hanse.grpo.shaping.consensus.store import Found, load_nodes, save_nodes
from hanse.recipe.model import Recipe
from hanse.runs.consensus import build_consensus
from hanse.runs.progress import SilentProgress
from tests.end_to_end.small import StopAfter, small_recipe, without_times

POPULATION = "grpo.scale=group_population"
DRA = ("grpo.shaping.dra.enabled=true", "grpo.shaping.dra.ngram=1")
BOT = ("grpo.shaping.bot.enabled=true", "grpo.shaping.bot.global_weight=1.0")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A node for each problem of two digits or less: that some digit is named."""
    path = tmp_path_factory.mktemp("nodes") / "nodes.json"
    node = (Node("#1", "1", 1.0), Node("#2", "2", 0.5))
    names = [f"{a}+{b}" for a in range(100) for b in range(100)]
    save_nodes(path, {"by": "hand"}, {name: Found(1, 1, node) for name in names})
    return str(path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Uninterrupted runs of two rounds, made once."""
    made: dict[tuple[str, ...], hanse.Run] = {}

    def run(*overrides: str) -> hanse.Run:
        if overrides not in made:
            out = tmp_path_factory.mktemp("run")
            made[overrides] = hanse.train(small_recipe("rounds=2", POPULATION, *overrides), out=out)
        return made[overrides]

    return run


def digest(run: hanse.Run) -> str:
    return str(run.summary["policy_sha256"])


def rows(run: hanse.Run, kind: str) -> list[dict[str, Any]]:
    return without_times(run.metrics(kind))


def test_bags_without_local_rewards_are_grpo_bit_for_bit(trained: Any) -> None:
    assert digest(trained(*BOT, "grpo.shaping.bot.local_weight=0.0")) == digest(trained())


def test_consensus_of_weight_zero_is_grpo_bit_for_bit(trained: Any, nodes: str) -> None:
    consensus = ("grpo.shaping.consensus.enabled=true", f"grpo.shaping.consensus.nodes={json.dumps(nodes)}")
    none = trained(*consensus, "grpo.shaping.consensus.alpha=0.0")
    assert digest(none) == digest(trained())
    half = trained(*consensus)
    assert digest(half) != digest(trained())
    step = rows(half, "step")[0]
    assert 0 < step["shaping/ncr"] < 1 and step["shaping/tpn"] > 0
    first, last = (
        trained(*consensus, f'grpo.shaping.consensus.curriculum="{name}"', *BOT)
        for name in ("process-first", "outcome-first")
    )
    weights = [[row["shaping/process_weight"] for row in rows(run, "step")] for run in (first, last)]
    assert sorted(set(weights[0])) == [0.0, 0.5] == sorted(set(weights[1]))
    assert [0.5 - w for w in weights[0]] == weights[1]


@pytest.mark.parametrize("shaping", [DRA, BOT])
def test_shaping_changes_the_step_and_not_the_signal(trained: Any, shaping: tuple[str, ...]) -> None:
    plain, shaped = trained(), trained(*shaping)
    assert digest(plain) != digest(shaped)
    before, after = rows(plain, "step")[0], rows(shaped, "step")[0]
    for name in ("reward", "reward_std", "frac_reward_zero_std"):
        assert before[name] == after[name]
    assert 0 <= after["shaping/mass_of_equal_groups"] <= 1
    assert not any(name.startswith("shaping/") for name in before)


@pytest.mark.parametrize("shaping", [DRA, (*DRA, *BOT)])
def test_a_stopped_run_ends_with_the_same_bits(
    trained: Any, shaping: tuple[str, ...], tmp_path: Path
) -> None:
    recipe = small_recipe("rounds=2", POPULATION, *shaping)
    with pytest.raises(KeyboardInterrupt):
        hanse.train(recipe, out=tmp_path, progress=StopAfter(1))
    (folder,) = tmp_path.iterdir()
    assert digest(hanse.resume(folder)) == digest(trained(*shaping))


def test_missing_files_are_told_before_anything_is_trained(tmp_path: Path) -> None:
    for field in ("grpo.shaping.consensus", "evaluation"):
        enabled = ["grpo.shaping.consensus.enabled=true"] if field != "evaluation" else []
        recipe = small_recipe(*enabled, f'{field}.nodes="{tmp_path}/none.json"')
        with pytest.raises(RecipeError) as caught:
            hanse.train(recipe, out=tmp_path / "runs")
        assert caught.value.field == f"{field}.nodes"
        assert not list(tmp_path.glob("runs/*"))


def test_evaluation_reads_the_way_to_the_answer(nodes: str, tmp_path: Path) -> None:
    options = ("rounds=1", "evaluation.distinct=true", f"evaluation.nodes={json.dumps(nodes)}")
    run = hanse.train(small_recipe(*options), out=tmp_path)
    for which in ("initial", "final"):
        told = run.summary["evaluation"][which]
        assert 0 <= told["ncr"] <= 1 and told["tpn"] > 0 and told["distinct_solutions"] >= 0
    again = hanse.evaluate(run.folder)
    assert again["ncr"] == run.summary["evaluation"]["final"]["ncr"]


LENIENT = """
def lenient(completions, **columns):
    return [float(len(text) > 1) for text in completions]
"""


def build_recipe(folder: Path, *overrides: str) -> Recipe:
    (folder / "lenient.py").write_text(LENIENT)
    reward = {"path": f"{folder / 'lenient.py'}:lenient"}
    build = "grpo.shaping.consensus.build"
    loose = (f"{build}.support=0.1", f"{build}.least=1", f"{build}.rollouts=6")
    sizes = (f"{build}.problems_per_level=20", "grpo.max_new_tokens=9")
    return small_recipe(*sizes, *loose, *overrides, rewards=[reward])


class StopAfterNotes(SilentProgress):
    """Ctrl-C, pressed at a given note. Keeps all of them."""

    def __init__(self, number: int | None = None) -> None:
        self.number, self.notes = number, list[str]()

    def note(self, text: str) -> None:
        self.notes.append(text)
        if len(self.notes) == self.number:
            raise KeyboardInterrupt


def test_a_stopped_build_goes_on_and_ends_with_the_same_bytes(tmp_path: Path) -> None:
    recipe = build_recipe(tmp_path)
    whole = build_consensus(recipe, tmp_path / "whole.json")
    assert whole.problems == 120 and whole.nodes > 20 and whole.solved > 0
    path = tmp_path / "stopped.json"
    with pytest.raises(KeyboardInterrupt):
        build_consensus(recipe, path, StopAfterNotes(2))
    assert not path.exists()
    part = tmp_path / "stopped.json.part"
    assert len(part.read_text().splitlines()) == 1 + 64
    torn = part.read_text()[:-40]  # as a machine that went down leaves the last line
    part.write_text(torn)
    notes = StopAfterNotes()
    build_consensus(recipe, path, notes)
    assert notes.notes[0] == "going on after 63 problems"
    assert notes.notes[-1].startswith("120 of 120 problems")
    assert path.read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert not part.exists()
    # built already: nothing is sampled
    again = StopAfterNotes()
    assert build_consensus(recipe, path, again) == build_consensus(recipe, path)
    assert again.notes == []


def test_nodes_do_not_depend_on_what_is_built_beside_them(tmp_path: Path) -> None:
    few = build_consensus(
        build_recipe(tmp_path, "grpo.shaping.consensus.build.problems_per_level=5"), tmp_path / "a"
    )
    many = build_consensus(build_recipe(tmp_path), tmp_path / "b")
    small, large = load_nodes(few.path), load_nodes(many.path)
    shared = small.keys() & large.keys()
    assert len(shared) >= 2
    assert all(small[name] == large[name] for name in shared)


def test_another_build_is_not_overwritten_and_its_journal_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    with pytest.raises(KeyboardInterrupt):
        build_consensus(build_recipe(tmp_path, "seed=7"), path, StopAfterNotes(1))
    notes = StopAfterNotes()
    build_consensus(build_recipe(tmp_path), path, notes)
    assert notes.notes[0].startswith("32 of 120")
    with pytest.raises(RunError, match="made from another policy"):
        build_consensus(build_recipe(tmp_path, "grpo.shaping.consensus.build.support=0.9"), path)
    with pytest.raises(RecipeError, match="where the nodes go"):
        build_consensus(build_recipe(tmp_path))
