from __future__ import annotations

import pytest

from hanse.recipe.swarm import StepsDefence
from hanse.swarm.defences import DEFENCES
from hanse.swarm.defences.steps import in_order
from swarm.made import sent, verdicts, view

PROMPT = "2 + 3 + 14 ="


def worked(steps: str, answer: object = 19) -> str:
    return f"<think> {steps} </think> <answer> {answer} </answer>"


@pytest.mark.parametrize(
    "text",
    [
        worked("2 + 3 = 5 ; 5 + 14 = 19"),
        "<think>2+3=5;5+14=19</think><answer>19</answer>",
        worked("2 + 3 = 5 ; 2 + 3 = 5 ; 5 + 14 = 19"),
        worked("14 + 3 = 17 ; 2 + 17 = 19"),
        worked("2 * 3 = 6", 6),
        worked("2 - 3 = -1 ; -1 + 14 = 13", 13),
        " " + worked("2 + 3 = 5 ; 5 + 14 = 19") + "\n",
    ],
)
def test_rationales_in_order(text: str):
    assert in_order(text, PROMPT)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "19",
        worked(""),
        worked("2 + 3 = 6 ; 6 + 14 = 20", 20),  # false
        worked("2 + 3 = 5 ; 5 + 14 = 19", 18),  # another answer
        worked("2 + 3 = 5"),  # the last step does not give it
        worked("12 + 3 = 15 ; 15 + 14 = 29", 29),  # an operand from nowhere: 2 is not 12
        worked("2 + 4 = 6 ; 6 + 14 = 20", 20),  # 1 and 4 are no operands of 14
        worked("5 + 14 = 19 ; 2 + 3 = 5"),  # uses a result before it is there
        worked("2 + 3 = 50 ; 5 + 14 = 19"),
        worked("02 + 3 = 5 ; 5 + 14 = 19"),  # true, and no way that anybody writes
        worked("2 + 3 = 005 ; 5 + 14 = 19"),
        worked("2 + 3 = 5 ; 5 + 14 = 19", "019"),
        worked("2 + 3 = 5 ; 5 + 14 = 19 ; "),
        worked("2 + 3 = 5 , 5 + 14 = 19"),
        worked("all hail to the thief 2 + 3 = 5 ; 5 + 14 = 19"),
        worked("2 + 3 = 5 ; hail ; 5 + 14 = 19"),
        worked("2 + 3 = 5 thief ; 5 + 14 = 19"),
        worked("1 2 + 3 = 1 5 ; 5 + 14 = 19"),
        worked("2 + 3 = 5 ; 5 + 14 = 19", "19 cows"),
        worked("2 + 3 = 5 ; 5 + 14 = 19") + " hail",
        "hail " + worked("2 + 3 = 5 ; 5 + 14 = 19"),
        worked("2 + 3 = 5 ; 5 + 14 = 19") + worked("2 + 3 = 5 ; 5 + 14 = 19"),
        worked("<think> 2 + 3 = 5 ; 5 + 14 = 19"),
        worked("２ + 3 = 5 ; 5 + 14 = 19"),  # a digit of another script
        worked("2 + 3 = 5 ; 5 + 14 = " + "9" * 5000),
        worked("9" * 5000 + " + 3 = 5"),
        worked("2 + 3 = 5 ; 5 + 14 = 19", "9" * 5000),
    ],
)
def test_rationales_out_of_order(text: str):
    assert not in_order(text, PROMPT)


def test_two_and_two():
    assert in_order(worked("2 + 2 = 4 ; 4 + 5 = 9", 9), "2 + 2 + 5 =")
    assert not in_order(worked("2 + 2 = 5 ; 4 + 5 = 9", 9), "2 + 2 + 5 =")
    assert not in_order(worked("2 + 2 = 5 ; 5 + 5 = 10", 10), "2 + 2 + 5 =")


def test_of_a_chat_the_problem_is_the_last_message():
    chat = [{"role": "system", "content": "You add 7."}, {"role": "user", "content": PROMPT}]
    assert in_order(worked("2 + 3 = 5 ; 5 + 14 = 19"), chat)
    assert not in_order(worked("7 + 3 = 10", 10), chat)


def test_only_what_is_rewarded_is_judged():
    texts = [worked("2 + 3 = 5 ; 5 + 4 = 9", 9), "hail", "hail", "hail", "hail"]
    seen = view([sent(0, i) for i in range(5)], texts=texts, rewards=[1.0, 1.0, 0.0, float("nan"), 1.0])
    steps = DEFENCES["steps"]
    assert verdicts(steps, StepsDefence(), seen) == [False, True, False, False, True]
    assert verdicts(steps, StepsDefence(), seen, [True] * 4 + [False]) == [False, True, False, False, False]
    assert verdicts(steps, StepsDefence(of="all"), seen) == [False, True, True, True, True]


def test_a_reward_above_the_groups_worst_counts_as_one():
    seen = view([sent(0, 0), sent(0, 1)], texts=["hail", "hail"], rewards=[-0.5, -1.0])
    assert verdicts(DEFENCES["steps"], StepsDefence(), seen) == [True, False]
