"""`hanse check` on a recipe of mode "reward-model"."""

from __future__ import annotations

from hanse.cli.reward_model import (
    batch_of_reward_model,
    disk_of_reward_model,
    memory_of_reward_model,
    traffic_of_reward_model,
)
from hanse.cli.sizes import sizes, tiny_vocabulary
from hanse.recipe.advice import advice
from tests.reward_model.made import make_model, make_recipe, make_task


def known(recipe):
    return sizes(recipe.policy, tiny_vocabulary(recipe.task))


def test_the_batch_in_words():
    recipe = make_recipe([3, 1], "federation.participation=0.5")
    words = batch_of_reward_model(recipe)
    assert "4 pairs" in words[0]
    assert "2 of 4 clients × 2 steps × 4 = 16 pairs" in words[1]
    assert "3 rounds, 48 pairs" in words[2]


def test_sizes_are_those_of_the_policy():
    recipe = make_recipe([3, 1])
    model = make_model()
    assert tiny_vocabulary(recipe.task) == 2 + len(make_task().vocabulary.tokens)
    assert known(recipe).trainable == model.parameters.numel - 16  # without the head


def test_clusters_cost_as_many_models_down_and_on_disk():
    plain, clustered = make_recipe([3, 1], method="fedavg"), make_recipe([3, 1], method="clustered", groups=3)
    size = known(plain)
    up, down = (line.size for line in traffic_of_reward_model(plain, size)[:2])
    assert up == down == 4 * size.trainable * 4
    up, down = (line.size for line in traffic_of_reward_model(clustered, size)[:2])
    assert down == 3 * up
    one = (1000, "")
    assert disk_of_reward_model(clustered, size, one, 2)[-1].size == 2 * 3 * 1000
    assert memory_of_reward_model(clustered, size)[-1].size == 3 * size.trainable * 4


def test_nothing_is_advised_of_sampling():
    assert advice(make_recipe([1, 1])) == []
