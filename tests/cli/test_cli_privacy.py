from __future__ import annotations

import pytest

from hanse.cli.privacy import privacy_in_words, privacy_of_partition
from hanse.recipe.load import load_recipe

pytest.importorskip("dp_accounting")


def recipe(**privacy):
    return load_recipe({"rounds": 4, "privacy": {"enabled": True, **privacy}})


def test_each_client_s_noise_and_loss_are_told():
    (line,) = privacy_in_words(recipe(epsilon=8.0), {"a": 1000})
    assert line.startswith("a: 1,000 problems, each in a step with probability 0.032; noise 0.4")
    assert "; (8, 5.0e-04) after 20 of 20 steps." in line or "; (7.99, 5.0e-04) after 20 of 20 steps." in line


def test_a_noise_that_the_budget_does_not_bear_for_all_rounds_is_told():
    (line,) = privacy_in_words(recipe(epsilon=2.0, noise=0.6), {"a": 1000})
    assert "of 20 steps, which is all that privacy.epsilon = 2 affords." in line


def test_no_noise_and_too_few_problems_are_told():
    lines = privacy_in_words(recipe(noise=0.0), {"a": 1000, "b": 5})
    assert lines[0].endswith("noise 0 × clip: no guarantee.")
    assert lines[1] == "b has 5 problems, fewer than the 32 that a step is to take."


def test_the_partition_of_the_recipe_is_used():
    assert len(privacy_of_partition(recipe(noise=0.0))) == 5
