"""What `hanse check` says of a run whose clients only score."""

from __future__ import annotations

from hanse.cli import estimate
from hanse.cli.batch import batch_in_words
from hanse.cli.sizes import Sizes
from hanse.recipe.load import load_recipe

KNOWN = Sizes(total=1000, trainable=1000, vocabulary=14, cache_width=8)


def recipe(**only):
    grpo = {"prompts_per_step": 10, "group_size": 4, "local_steps": 2, "max_new_tokens": 5}
    return load_recipe({"mode": "reward-only", "rounds": 3, "grpo": grpo, "reward_only": only})


def by_name(lines) -> dict[str, int]:
    return {line.what: line.size for line in lines}


def test_traffic_is_scores_up_and_candidates_down_and_a_quiz():
    found = by_name(estimate.traffic(recipe(experts=2), KNOWN))
    up, down, quiz = 2 * 10 * 4 * 2 * 5, 2 * 10 * 4 * 2 * 5 * 4, 5 * 100 * 5 * 4
    whole = {"up, a round": up, "down, a round": down, "both, whole run": 3 * (up + down)}
    assert found == whole | {"quiz, once": quiz, "both, whole run": 3 * (up + down) + quiz}
    assert by_name(estimate.traffic(recipe(experts=2, choice="random"), KNOWN)) == whole
    models = by_name(estimate.traffic(recipe(models=["x"] * 5), KNOWN))
    assert models["quiz, once"] == 2 * quiz


def test_clients_keep_a_model_only_where_they_train_one():
    plain, own = recipe(), recipe(own_steps=7)
    assert by_name(estimate.disk(plain, KNOWN))["one round"] == 12_000
    assert by_name(estimate.disk(own, KNOWN))["one round"] == 12_000 + 5 * 4_000
    assert "clients' own models" not in by_name(estimate.memory(plain, KNOWN))
    assert by_name(estimate.memory(own, KNOWN))["clients' own models"] == 5 * 4_000


def test_the_batch_is_the_servers_and_own_steps_come_before():
    words = " ".join(batch_in_words(recipe(own_steps=7)))
    assert "the server takes 10 problems × 4 completions = 40" in words
    assert "A round: 2 steps × 40 × 1 = 80 completions." in words
    assert "7 own steps × 40 × 5 clients = 1,400 completions" in words
    assert "own steps" not in " ".join(batch_in_words(recipe()))
