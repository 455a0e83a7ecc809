"""What a score means: weights, None, failures, shapes, and where functions run."""

import json
import math
import time

import numpy as np
import pytest

from hanse.errors import RecipeError
from hanse.recipe.tasks import RewardSpec, ScoringSpec
from hanse.tasks.problem import Problem
from hanse.tasks.scoring.scorer import Scorer

from ..processes import workers
from .conftest import FUNCTIONS, grouped, reward

EXACT = RewardSpec(name="exact")


def test_weighted_sum_by_hand(score):
    problems = [Problem("a", "q", "yes"), Problem("b", "q", "no")]
    rewards = [RewardSpec(name="exact", weight=2), reward("length", weight=-0.5)]
    scores = score(rewards, ["yes", "yes"], problems)
    assert scores.names_F == ("exact", "length")
    assert scores.values_FN.tolist() == [[1, 0], [3, 3]]
    assert scores.totals_N.tolist() == [0.5, -1.5]
    assert not scores.failures and scores.examples == ()


def test_none_is_left_out_of_the_sum_and_all_none_is_unscored(score):
    problems = [Problem("a", "q", "x"), Problem("b", "q", None), Problem("c", "q", None)]
    scores = score([EXACT, reward("not_applicable")], ["bad", "good", "bad"], problems)
    assert np.isnan(scores.values_FN).tolist() == [[False, True, True], [True, False, True]]
    assert scores.totals_N.tolist()[:2] == [0.0, 2.0] and math.isnan(scores.totals_N[2])
    assert scores.failures == {"not applicable": 1}


def test_numbers_of_all_kinds_and_those_that_are_none(score):
    scores = score(reward("kinds"), list("abcdef"))
    assert scores.totals_N.tolist()[:2] == [1.0, 3.0] and scores.totals_N[5] == 1.5
    assert np.isnan(scores.totals_N[2:5]).all()
    assert scores.failures == {"not applicable": 1, "not finite": 2}
    assert np.isnan(scores.values_FN[0, 2:5]).all()


def test_a_failing_function_leaves_the_completion_unscored_not_zero(score):
    scores = score([EXACT, reward("raises")], ["0", "1", "bad", "3"])
    assert scores.totals_N.tolist()[:2] == [2.0, 2.0] and scores.totals_N[3] == 2.0
    assert math.isnan(scores.totals_N[2])
    assert scores.failures == {"exception": 1}
    assert scores.examples == ("raises: exception: RuntimeError: no  [31mred lines",)


def test_a_function_of_weight_zero_is_only_reported(score):
    scores = score([EXACT, reward("raises", weight=0)], ["0", "bad"])
    assert scores.totals_N.tolist() == [1.0, 0.0]
    assert not scores.failures and len(scores.examples) == 1


def test_sums_that_overflow_are_not_finite(score):
    rewards = [RewardSpec(name="length", arguments={"max_tokens": 1, "buffer": 0}, weight=1.7e308)] * 2
    scores = score(rewards, ["x"], ids=[[1, 2]])
    assert scores.names_F == ("length", "length#2")
    assert math.isnan(scores.totals_N[0]) and scores.failures == {"not finite": 1}


def test_opposite_infinities_are_not_finite_either(score):
    rewards = [RewardSpec(name="length", arguments={"max_tokens": 1, "buffer": 0}, weight=1.7e308)] * 2
    rewards += [reward("length", weight=-1.7e308)] * 2
    scores = score(rewards, ["xx"], ids=[[1, 2]])
    assert math.isnan(scores.totals_N[0]) and scores.failures == {"not finite": 1}


def test_each_unscored_completion_is_counted_once(score):
    scores = score([reward("raises"), reward("words")], ["bad", "x", "bad", "bad"])
    assert scores.failures == {"exception": 3}
    assert int(np.isnan(scores.totals_N).sum()) == 3


def test_trl_convention_for_text_and_chat(score):
    """Strings for string prompts, message lists for message prompts, columns as lists, ids where known."""
    chat = [{"role": "user", "content": "hi"}]
    problems = [Problem("a", "text", "1", {"level": 1, "z": 2}), Problem("b", chat, None, {"level": 2})]
    scores = score(reward("seen"), ["one", "two"], problems, [[7], [8, 9]])
    first, second = (json.loads(line.split("ValueError: ")[1]) for line in scores.examples)
    rest = ["log_extra", "log_metric", "z"]
    assert first == [["text"], ["one"], [[7]], ["1"], [1], rest]
    assert second == [[chat], [[{"role": "assistant", "content": "two"}]], [[8, 9]], [None], [2], rest]


def test_functions_get_what_their_signature_asks_for(score):
    assert score(reward("lengths_of_ids"), ["a", "b"], ids=[[1, 2, 3], []]).totals_N.tolist() == [3.0, 0.0]
    scores = score(reward("lengths_of_ids"), ["a"])
    assert scores.failures == {"exception": 1} and "asks for 'completion_ids'" in scores.examples[0]


def test_async_function(score):
    assert score(reward("later"), ["a", "b"]).totals_N.tolist() == [0.25, 0.25]


def test_verl_and_verifiers(score):
    problems = [
        Problem("a", "q", "x", {"level": 1}),
        Problem("b", "q", "x", {"level": 2, "data_source": "ab"}),
    ]
    assert score(reward("compute_score", style="verl"), ["x", "y"], problems).totals_N.tolist() == [2.0, 4.0]
    assert score(reward("rollout", style="verifiers"), ["x", "y"], problems).totals_N.tolist() == [2.0, 2.0]
    late = reward("rollout_later", style="verifiers")
    assert score(late, ["x", "y"], problems).totals_N.tolist() == [0.5, 0.5]


def test_group_mates_are_in_one_call(score):
    completions = ["a", "bbb"] * 40
    assert set(score(reward("group_mean"), completions).totals_N) == {2.0}


def test_neighbouring_groups_of_one_problem_are_not_one_group():
    problems = [Problem("a", "q", "x")] * 40
    with Scorer([reward("rows_of_a_call")], ScoringSpec(processes=1)) as scorer:
        assert set(scorer.score(problems, ["x"] * 40, group_size=20).totals_N) == {20.0}
        with pytest.raises(ValueError, match="groups of 16"):
            scorer.score(problems, ["x"] * 40, group_size=16)


def test_results_do_not_depend_on_the_number_of_workers(score):
    completions = [f"completion {i}" for i in range(200)]
    one, three = (score(reward("draws"), completions, processes=n) for n in (1, 3))
    assert one.totals_N.tolist() == three.totals_N.tolist()
    assert len(set(one.totals_N)) > 190


def test_workers_start_when_needed_and_no_more_than_allowed(score):
    assert not score(EXACT, ["0"]).failures and len(workers()) == 0
    assert not score(reward("length"), ["0"], processes=3).failures and len(workers()) == 1
    assert not score(reward("length"), ["0"] * 400, processes=2).failures and len(workers()) == 3


def test_secrets_of_the_environment_stay_here(score, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "x")
    assert score(reward("environment"), ["a"]).totals_N.tolist() == [0.0]
    assert score(reward("environment", trusted=True), ["a"]).totals_N.tolist() == [1.0]


def test_trusted_functions_run_here_on_all_completions_at_once(score):
    completions = ["a"] * 100
    scores = score(reward("length", trusted=True), completions)
    assert scores.totals_N.tolist() == [1.0] * 100
    scores = score(reward("raises", trusted=True), ["good", "bad", "good"])
    assert scores.totals_N.tolist()[::2] == [1.0, 1.0] and scores.failures == {"exception": 1}


def test_a_trusted_function_that_hangs_costs_one_deadline(score):
    start = time.monotonic()
    scores = score([EXACT, reward("waits", trusted=True)], ["0", "1"], deadline_s=0.2)
    assert time.monotonic() - start < 2
    assert scores.failures == {"timeout": 2} and scores.values_FN[0].tolist() == [1.0, 1.0]


def test_budget_bounds_the_whole_call(score):
    completions = ["bad"] * 400
    start = time.monotonic()
    scores = score([EXACT, reward("hangs")], completions, deadline_s=0.3, budget_s=0.8, processes=2)
    assert time.monotonic() - start < 3
    assert scores.failures["budget"] > 300 and sum(scores.failures.values()) == 400


def test_nothing_to_score():
    with Scorer([EXACT], ScoringSpec()) as scorer:
        scores = scorer.score([], [])
    assert scores.totals_N.shape == (0,) and scores.values_FN.shape == (1, 0) and not scores.failures


def test_lists_of_different_length_are_a_mistake_of_the_caller():
    with Scorer([EXACT], ScoringSpec()) as scorer, pytest.raises(ValueError, match="differ in number"):
        scorer.score(grouped(["a"]), ["a", "b"])


def test_columns_that_cannot_be_sent_leave_rows_unscored(score):
    loop: list = []
    loop.append(loop)
    problems = [Problem("a", "q", "x", {"c": loop}), Problem("b", "q", "x", {"c": 1})]
    scores = score(reward("length"), ["a", "b"], problems)
    assert math.isnan(scores.totals_N[0]) and scores.totals_N[1] == 1.0


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({}, "rewards[1]", "either `name`"),
        ({"name": "exact", "path": "a:b"}, "rewards[1]", "either `name`"),
        ({"name": "exakt"}, "rewards[1].name", "exact, math"),
        ({"name": "exact", "style": "verl"}, "rewards[1].style", "by `path`"),
        ({"name": "exact", "arguments": {"x": 1}}, "rewards[1].arguments", "tag, ignore_case"),
        ({"name": "format", "arguments": {"pattern": "("}}, "rewards[1].arguments", "pattern"),
        ({"name": "length"}, "rewards[1].arguments", "max_tokens"),
        (
            {"name": "length", "arguments": {"max_tokens": 1, "buffer": 2}},
            "rewards[1].arguments",
            "between 0",
        ),
        ({"name": "code", "arguments": {"timeout_s": 9}}, "rewards[1].arguments", "deadline_s"),
        ({"name": "code", "trusted": True}, "rewards[1].trusted", "never runs in this process"),
        ({"path": "no_colon"}, "rewards[1].path", "does not name a function"),
        ({"path": "nowhere.py:f"}, "rewards[1].path", "does not exist"),
        ({"path": "no.such.module:f"}, "rewards[1].path", "No module named"),
        ({"path": f"{FUNCTIONS}:nothing"}, "rewards[1].path", "It defines: bad, waits"),
        ({"path": f"{FUNCTIONS}:not_a_function"}, "rewards[1].path", "no function"),
    ],
)
def test_refusals_name_the_field_and_the_remedy(fields, field, words):
    with pytest.raises(RecipeError) as caught, Scorer([EXACT, RewardSpec(**fields)], ScoringSpec()) as scorer:
        scorer.start()
    assert caught.value.field == field
    assert words in str(caught.value)


def test_no_rewards():
    with pytest.raises(RecipeError, match="there is no reward function"):
        Scorer([], ScoringSpec())


def test_exact_is_fast():
    """512 completions in less than 2 ms."""
    problems = [
        Problem(f"p{i // 8}", "001+002=", "3000", {"level": 1, "operands": [1, 2]}) for i in range(512)
    ]
    completions = ["3000", "3001"] * 256
    seconds = []
    with Scorer([EXACT], ScoringSpec()) as scorer:
        for _ in range(20):
            start = time.perf_counter()
            scores = scorer.score(problems, completions)
            seconds.append(time.perf_counter() - start)
    assert scores.totals_N.mean() == 0.5
    assert min(seconds) < 2e-3
    assert scorer.isolation == {}
