"""An attacked swarm with its control: the same run without liars, in a folder within its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hanse
from hanse.errors import HanseError, RecipeError
from hanse.recipe.load import dump_recipe, load_recipe
from hanse.recipe.model import Recipe
from hanse.runs import api
from hanse.runs.control import ControlProgress, control_recipe
from hanse.runs.folder import RunFolder
from hanse.runs.progress import SilentProgress
from tests.end_to_end.small import StopAfter, small_recipe


def recipe(*overrides: str, control: bool = True, rounds: int = 2) -> Recipe:
    return small_recipe(
        *overrides,
        mode="swarm",
        rounds=rounds,
        grpo={"local_steps": 1},
        swarm={"nodes": 2},
        adversary={"nodes": [1], "control": control, "completions": {"type": "garbage"}},
    )


def swarm_of(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / "summary.json").read_text())["swarm"]
    return told


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> hanse.Run:
    return hanse.train(recipe(), out=tmp_path_factory.mktemp("runs"))


def test_the_control_is_an_ordinary_run_without_liars(run: hanse.Run) -> None:
    control = RunFolder(run.folder / "control")
    told = control.recipe()
    assert (told.adversary.nodes, told.adversary.control, told.seed) == ([], False, recipe().seed)
    assert told.swarm == recipe().swarm and told.name == "small-control"
    assert len(control.metrics("round")) == 3 and control.policy_path.is_dir()
    assert (control.path / "report.html").is_file()
    assert api.resume(control.path).already_finished
    assert set(api.evaluate(control.path)) == set(api.evaluate(run.folder))


def test_the_summary_and_the_page_have_it_beside_the_run(run: hanse.Run) -> None:
    told = swarm_of(run.folder)
    assert told["control"] == swarm_of(run.folder / "control")
    assert "refused_bundles" in told and "control" not in told["control"]
    page = (run.folder / "report.html").read_text()
    assert "no liars: " in page and "without liars" in page


def test_the_run_itself_is_the_same_with_and_without(run: hanse.Run, tmp_path: Path) -> None:
    alone = hanse.train(recipe(control=False), out=tmp_path)
    assert alone.summary["policy_sha256"] == run.summary["policy_sha256"]
    assert "control" not in alone.summary["swarm"] and not (alone.folder / "control").exists()


class _StopControl(SilentProgress):
    """Ctrl-C, pressed when the control has just ended its first round."""

    def note(self, text: str) -> None:
        if "round 1/" in text:
            raise KeyboardInterrupt


def test_a_run_stopped_in_its_control_goes_on_there(run: hanse.Run, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        hanse.train(recipe(), out=tmp_path, progress=_StopControl())
    (folder,) = tmp_path.iterdir()
    assert RunFolder(folder).newest_round() is None
    assert RunFolder(folder / "control").newest_round() is not None
    done = api.resume(folder)
    assert done.summary["policy_sha256"] == run.summary["policy_sha256"]
    assert swarm_of(folder)["control"] == swarm_of(run.folder)["control"]


def test_a_run_stopped_after_its_control_does_not_train_it_again(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        hanse.train(recipe(), out=tmp_path, progress=StopAfter(1))
    (folder,) = tmp_path.iterdir()
    before = (folder / "control" / "summary.json").stat().st_mtime_ns
    api.resume(folder)
    assert (folder / "control" / "summary.json").stat().st_mtime_ns == before


def test_raised_rounds_hold_for_both(tmp_path: Path) -> None:
    done = hanse.train(recipe(rounds=1), out=tmp_path)
    (done.folder / "recipe.toml").write_text(dump_recipe(recipe(rounds=2)))
    api.resume(done.folder)
    assert len(RunFolder(done.folder / "control").metrics("round")) == 3


def test_a_run_that_fails_before_it_began_leaves_no_folder(tmp_path: Path) -> None:
    broken = recipe('rewards=[{path="nowhere.py:missing"}]')
    with pytest.raises(HanseError):
        hanse.train(broken, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_names_stay_short_enough() -> None:
    long = recipe(f'name="{"x" * 100}"')
    assert load_recipe(json.loads(control_recipe(long).model_dump_json())).name == "x" * 92 + "-control"


def test_progress_tells_the_control_apart() -> None:
    said: list[str] = []

    class Noting(SilentProgress):
        def note(self, text: str) -> None:
            said.append(text)

        warning = note

    control = ControlProgress(Noting())
    control.started("small-control", 2, ["node-0"], [])
    control.round_done({"round": 1, "swarm/honest_reward": 0.5})
    control.warning("odd")
    control.finished({}, Path())
    assert said[1:3] == ["Control, in which nobody lies: round 1/2  reward 0.500", "control: odd"]
    assert said[0].startswith("First the control") and len(said) == 4


@pytest.mark.parametrize(
    ("overrides", "field", "words"),
    [
        (["adversary.nodes=[]"], "adversary.control", "nobody lies here"),
        (['mode="federated"', "adversary.nodes=[]"], "adversary.control", 'the mode is "federated"'),
        (['mode="federated"', "adversary.control=false"], "adversary.nodes", "no nodes in mode"),
        (["adversary.nodes=[2]"], "adversary.nodes", "Use indices from 0 to 1."),
        (["adversary.nodes=[0, 1]"], "adversary.nodes", "all nodes lie"),
    ],
)
def test_liars_and_controls_that_make_no_sense(overrides: list[str], field: str, words: str) -> None:
    with pytest.raises(RecipeError, match=words) as caught:
        recipe(*overrides)
    assert caught.value.field == field
