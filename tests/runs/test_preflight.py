"""Prompts that do not fit the model's context are refused with a remedy that helps."""

from __future__ import annotations

import re

import pytest

from hanse.errors import RecipeError
from hanse.recipe.load import load_recipe
from hanse.runs.preflight import preflight
from hanse.tasks.listed import ListedTask
from hanse.tasks.partition import ClientData
from hanse.tasks.problem import Problem


class Characters:
    """A policy with a token a character."""

    context = 20

    def encode(self, prompt):
        return tuple(prompt)


def refusal(training, held_out, validation=(), changes=(), **grpo):
    document = {"policy": {"type": "hf", "path": "x"}, "task": {"type": "jsonl", "path": "x"}}
    recipe = load_recipe(document | {"grpo": {"max_new_tokens": 8, **grpo}} | dict(changes))
    lengths = {"train": training, "held_out": held_out, "validation": validation}
    splits = {k: tuple(Problem(f"{k}{n}", "x" * n) for n in v) for k, v in lengths.items()}
    task = ListedTask("jsonl", (), splits)
    with pytest.raises(RecipeError) as caught:
        preflight(recipe, Characters(), task, [ClientData("a", splits["train"])])
    return caught.value


def test_long_training_prompts_can_be_left_out():
    error = refusal([5, 13, 14], [5])
    assert error.field == "grpo.max_prompt_tokens"
    assert "2 of 3 training prompts do not fit: the longest has 14 tokens" in error.problem
    assert "set grpo.max_prompt_tokens = 12" in error.remedy
    assert "lower grpo.max_new_tokens to 6" in error.remedy


@pytest.mark.parametrize("splits", [([5], [14, 5]), ([5], [5], [14]), ([19], [5, 14])])
def test_long_held_out_prompts_cannot(splits):
    error = refusal(*splits, max_prompt_tokens=12)
    assert error.field == "grpo.max_new_tokens"
    assert re.search(r"1 of . held-out and validation prompts do not fit", error.problem)
    assert "set grpo.max_prompt_tokens" not in error.remedy
    assert "leaves out training prompts only" in error.remedy
    assert "lower grpo.max_new_tokens to 6" in error.remedy


def test_no_number_of_new_tokens_is_advised_where_none_would_fit():
    error = refusal([5], [20])
    assert "lower" not in error.remedy
    assert "shorten the prompts or remove those problems" in error.remedy


def test_training_prompts_that_are_left_out_do_not_count():
    assert "1 of 1 held-out" in refusal([5, 19], [13], max_prompt_tokens=6).problem


def test_vertical_nodes_need_a_problem_each():
    """Without, nobody would owe anything, and rounds would pass in which nothing is learnt."""
    swarm = {"mode": "swarm", "swarm": {"nodes": 4, "topology": "vertical"}}
    error = refusal([5, 6, 7], [5], changes=swarm, local_steps=1)
    assert (
        error.field == "swarm.nodes" and "4 vertical nodes need a problem each; there are 3" in error.problem
    )
