"""Mode "reward-only" in whole runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import hanse
from grpo.toys import make_policy
from hanse.errors import RecipeError
from hanse.randomness import generator
from hanse.reward_model.folder import save_reward_model
from hanse.reward_model.head import RewardModel
from hanse.runtime.state import load_tensors
from tests.end_to_end.small import StopAfter, small_recipe, without_times


def recipe_of(*overrides: str, **changes):
    base = {
        "mode": "reward-only",
        "rewards": [{"path": f"{Path(__file__).parent / 'shaped.py'}:digits"}],
        "reward_only": {"auxiliary": 8, "nearest": 2, "experts": 1, "own_steps": 1},
    }
    return small_recipe(*overrides, **(base | changes))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return hanse.train(recipe_of(), out=tmp_path_factory.mktemp("whole"))


def server_of(folder, number):
    return load_tensors(folder / "rounds" / f"{number:06d}" / "server-0000.safetensors")


def test_only_scores_come_back_and_bytes_are_counted(whole):
    rows = whole.metrics("round")
    asked = 4 * 4 * 2  # candidates a round, each seen by one expert
    later = rows[-1]
    assert later["rollouts"] == asked and later["unscored"] == 0
    assert 5 * asked <= later["comm/bytes_up"] <= 5 * asked + 4 * 300
    assert later["comm/bytes_down"] > asked
    assert whole.summary["bytes"] == {
        "up": sum(row.get("comm/bytes_up", 0) for row in rows),
        "down": sum(row.get("comm/bytes_down", 0) for row in rows),
    }
    assert set(whole.summary["reward_only"]["competence"]) == {"level-1", "level-2"}
    assert whole.summary["counters"]["refused_replies"] == 0
    assert sum(later.get(f"clients/{name}/scored", 0) for name in ("level-1", "level-2")) == asked
    given = {
        n: later[f"clients/{n}/reward"] for n in ("level-1", "level-2") if f"clients/{n}/reward" in later
    }
    scored = sum(later[f"clients/{name}/scored"] * mean for name, mean in given.items())
    assert scored / asked == pytest.approx(later["reward"])  # one expert a question: the same scores
    master = [server_of(whole.folder, n)[0]["master"] for n in (2, 3)]
    assert not torch.equal(*master)


def test_a_resumed_run_is_the_same_bits(whole, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        hanse.train(recipe_of(), out=tmp_path, progress=StopAfter(2))
    (folder,) = tmp_path.iterdir()
    resumed = hanse.resume(folder)
    assert resumed.summary["policy_sha256"] == whole.summary["policy_sha256"]
    assert without_times(resumed.metrics("round")) == without_times(whole.metrics("round"))


def test_side_by_side_is_the_same_bits(whole, tmp_path):
    pool = hanse.train(recipe_of("runtime.workers=2"), out=tmp_path)
    assert pool.summary["policy_sha256"] == whole.summary["policy_sha256"]
    assert pool.summary["bytes"] == whole.summary["bytes"]


def model_in(folder: Path, seed: int) -> str:
    """A reward model with drawn values, in a folder of its own."""
    model = RewardModel.on(make_policy(seed), max_tokens=5)
    draws = generator(seed, "head").normal(0, 0.2, model.parameters.numel)
    model.parameters.load(torch.from_numpy(draws).float())
    save_reward_model(model, folder / str(seed), {})
    return str(folder / str(seed))


def test_clients_score_by_their_own_reward_models(tmp_path):
    models = [model_in(tmp_path, seed) for seed in (1, 2)]
    only = {"auxiliary": 8, "nearest": 2, "experts": 2, "models": models}
    recipe = recipe_of("rounds=2", reward_only=only)
    run = hanse.train(recipe, out=tmp_path / "runs")
    last = run.metrics("round")[-1]
    assert last["unscored"] == 0 and last["rewards/jury/std"] > 0
    assert 0 < run.summary["reward_only"]["competence"]["level-1"] < 1
    assert not any(row["client"] != "server" for row in run.metrics("step"))


def test_a_folder_without_a_reward_model_is_told(tmp_path):
    only = {"auxiliary": 8, "nearest": 2, "models": [str(tmp_path), str(tmp_path)]}
    with pytest.raises(RecipeError) as caught:
        hanse.train(recipe_of(reward_only=only), out=tmp_path / "runs")
    assert caught.value.field == "reward_only.models.0" and "no reward model" in caught.value.problem
