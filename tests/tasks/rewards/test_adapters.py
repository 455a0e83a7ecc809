import pytest

from hanse.tasks.rewards import adapters
from hanse.tasks.rewards.batch import Batch


def batch(completions=("a", "b"), **columns):
    n = len(completions)
    return Batch([f"q{i}" for i in range(n)], list(completions), None, {"answer": ["a"] * n, **columns})


def test_arguments_of_the_recipe_win_over_columns():
    def f(completions, answer, scale=1.0):
        return [scale * (c == a) for c, a in zip(completions, answer, strict=True)]

    assert adapters.trl(f, {})(batch()) == [1, 0]
    assert adapters.trl(f, {"scale": 3.0})(batch(scale=[9, 9])) == [3, 0]


def test_functions_with_keywords_get_everything_but_reserved_names():
    call = adapters.trl(lambda **given: [sorted(given)] * 2, {"extra": 1})
    expected = ["answer", "completions", "extra", "level", "log_extra", "log_metric", "prompts"]
    assert call(batch(level=[1, 2], prompt=["x", "y"])) == [expected] * 2


def test_a_missing_column_is_named_with_those_that_exist():
    with pytest.raises(adapters.MissingColumnError, match=r"asks for 'solution'; available are answer, comp"):
        adapters.trl(lambda completions, solution: [], {})(batch())


def test_verl_columns():
    seen = []

    def compute_score(data_source, solution_str, ground_truth, extra_info):
        seen.append((data_source, solution_str, ground_truth, extra_info))
        return {"score": 0.5}

    columns = {
        "answer": [None, "a"],
        "data_source": ["gsm8k", None],
        "reward_model": [{"ground_truth": "g"}, None],
        "extra_info": [{"i": 0}, {"i": 1}],
    }
    assert adapters.verl(compute_score, {})(batch(**columns)) == [0.5, 0.5]
    assert seen == [("gsm8k", "a", "g", {"i": 0}), ("", "b", "a", {"i": 1})]


def test_verl_chat_is_text_and_extra_info_defaults_to_the_row():
    call = adapters.verl(lambda solution_str, extra_info, **_: (solution_str, extra_info["level"]), {})
    messages = [[{"role": "assistant", "content": "hello"}]]
    assert call(batch(messages, level=[4])) == [("hello", 4)]


def test_verifiers_arguments_by_name():
    def f(completion, answer, prompt, state, info, task, parser, level):
        return [
            completion,
            answer,
            prompt,
            state["completion"],
            info,
            task,
            parser.parse_answer(completion),
            level,
        ]

    row = ["a", "", "q0", "a", {"k": 1}, "default", "a", 7]
    assert adapters.verifiers(f, {})(batch(["a"], answer=[None], info=[{"k": 1}], level=[7])) == [row]


def test_verifiers_mixes_sync_and_async():
    async def slow(completion):
        return 2.0

    def f(completion):
        return slow(completion) if completion == "a" else 1.0

    assert adapters.verifiers(f, {})(batch(["a", "b", "a"])) == [2.0, 1.0, 2.0]
