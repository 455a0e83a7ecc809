"""Runs that cannot go on say why, in words and by exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

import hanse
from hanse.errors import QuorumError, RecipeError, RunError
from tests.end_to_end.small import StopAfter, small_recipe

BROKEN = [{"path": f"{Path(__file__).parent / 'shaped.py'}:broken"}]


def test_a_reward_that_always_fails_ends_the_run_before_training(tmp_path):
    with pytest.raises(RecipeError, match="the rubric is missing") as failure:
        hanse.train(small_recipe(rewards=BROKEN), out=tmp_path)
    assert failure.value.field == "rewards"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change",
    [
        {"rewards": [{"path": f"{Path(__file__).parent / 'shaped.py'}:absent"}]},
        {"policy": {"type": "hf", "path": "/no/model"}},
    ],
)
def test_a_run_that_cannot_start_leaves_no_folder(tmp_path, change):
    recipe = small_recipe()
    spec = type(recipe).model_validate(recipe.model_dump() | change)
    with pytest.raises(RecipeError):
        hanse.train(spec, out=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_round_without_one_usable_upload_ends_the_run(tmp_path):
    with pytest.raises(QuorumError, match="non-finite") as failure:
        hanse.train(small_recipe("grpo.lr=3e38"), out=tmp_path)
    assert failure.value.exit_code == 5
    (folder,) = tmp_path.iterdir()
    assert str(failure.value).endswith(f"The last round is kept. Continue with: hanse resume {folder}")


def test_a_recipe_edited_into_another_policy_is_not_resumed(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        hanse.train(small_recipe("policy.train=lora"), out=tmp_path, progress=StopAfter(1))
    (folder,) = tmp_path.iterdir()
    recipe = folder / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("rank = 8", "rank = 4"))
    with pytest.raises(RunError, match=r"recipe\.toml was changed"):
        hanse.resume(folder)
