"""The strict form: reasoning, then the answer, nothing else, and the answer exactly."""

import time

import pytest

from hanse.errors import RecipeError
from hanse.recipe.tasks import RewardSpec, ScoringSpec
from hanse.tasks.problem import Problem
from hanse.tasks.rewards import tagged
from hanse.tasks.scoring.scorer import Scorer

RIGHT = "<think> 2 + 3 = 5 </think> <answer> 5 </answer>"


def value(text: str, answer: str | None = "5", **options: str) -> float | None:
    return tagged.build(**options)([text], [answer])[0]


@pytest.mark.parametrize(
    "text",
    [
        RIGHT,
        f"\n {RIGHT}\n\n",
        "<think></think><answer>5</answer>",
        "<think>15</think>\n<answer>\n5\n</answer>",
    ],
)
def test_right(text):
    assert value(text) == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "<answer> 5 </answer>",
        RIGHT.replace("5 </answer>", "15 </answer>"),
        RIGHT.replace("5 </answer>", "5 cows </answer>"),
        RIGHT.replace("5 </answer>", "5.0 </answer>"),
        RIGHT + " more",
        "first " + RIGHT,
        RIGHT.replace("</think> <", "</think> so <"),
        RIGHT + RIGHT,
        RIGHT.replace("<answer>", "<answer> 4 </answer> <answer>"),
        RIGHT.replace("<think>", "<think> <think>"),
        RIGHT.replace("</think>", ""),
        RIGHT.replace(" </answer>", ""),
        "<answer> 5 </answer> <think> 2 + 3 = 5 </think>",
        "<think> <answer> 5 </answer> </think>",
        "<think> 2 <answer> </think> 5 </answer>",
        RIGHT.replace("think", "THINK"),
    ],
)
def test_wrong(text):
    assert value(text) == 0.0


def test_the_answer_is_stripped_and_may_be_missing():
    assert value(RIGHT, " 5\n") == 1.0
    assert value(RIGHT, None) is None
    assert value([{"role": "assistant", "content": RIGHT}]) == 1.0  # type: ignore[arg-type]


def test_other_tags():
    text = "<plan>x</plan><result>5</result>"
    assert value(text, think_tag="plan", answer_tag="result") == 1.0
    assert value(text) == 0.0


@pytest.mark.parametrize("options", [{"think_tag": ""}, {"answer_tag": "think"}, {"think_tag": "<x>"}])
def test_tags_that_are_none_are_refused(options):
    with pytest.raises(RecipeError, match="think_tag"):
        Scorer([RewardSpec(name="tagged", arguments=options)], ScoringSpec())


@pytest.mark.parametrize(
    "text",
    [
        "<think>" + "</think> " * 100_000 + "</answer>",
        "<think>" * 100_000,
        "<think>" + " " * 10**6 + "</answer>",
    ],
)
def test_linear_in_the_text(text):
    start = time.perf_counter()
    assert value(text) == 0.0
    assert time.perf_counter() - start < 0.2


def test_it_needs_no_process():
    scorer = Scorer([RewardSpec(name="tagged")], ScoringSpec())
    assert scorer.isolation == {}
    scores = scorer.score([Problem("a", "2 + 3 =", "5")] * 2, [RIGHT, "5"])
    assert scores.totals_N.tolist() == [1.0, 0.0]
