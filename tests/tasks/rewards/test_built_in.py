"""Values of the built-in rewards, by hand."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.tasks.rewards import exact, format, length, math
from hanse.tasks.rewards.batch import WrongLengthError, WrongResultError, as_numbers, tagged, text_of


def chat(text):
    return [{"role": "assistant", "content": text}]


class TestExact:
    def test_letter_by_letter_after_stripping(self):
        reward = exact.build()
        completions = ["42", " 42\n", "4 2", "", chat("42"), "x"]
        assert reward(completions, ["42", "42", "42", "42", " 42", None]) == [1, 1, 0, 0, 1, None]

    def test_case(self):
        assert exact.build(ignore_case=True)(["Yes"], ["yES"]) == [1.0]
        assert exact.build()(["Yes"], ["yes"]) == [0.0]

    def test_tag(self):
        reward = exact.build(tag="answer")
        texts = [
            "I think <answer> 42 </answer>.",
            "42",
            "<answer>42",
            "<answer>1</answer><answer>42</answer>",
        ]
        assert reward(texts, ["42"] * 4) == [1, 0, 0, 1]


@pytest.mark.parametrize(
    ("text", "inside"),
    [("<a>x</a>", "x"), ("<a>x</a><a> y </a>z", "y"), ("</a><a>", None), ("a", None), ("<a></a>", "")],
)
def test_tagged(text, inside):
    assert tagged(text, "a") == inside


class TestFormat:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("<think>a\nb</think><answer>4</answer>", 1.0),
            (" <think>a</think>\n\n<answer>4</answer>\n", 1.0),
            ("<think></think><answer></answer>", 1.0),
            ("<think>a</think> so <answer>4</answer>", 0.0),
            ("<think>a</think><answer>4</answer>!", 0.0),
            ("x<think>a</think><answer>4</answer>", 0.0),
            ("<think>a<think>b</think><answer>4</answer>", 0.0),
            ("<think>a</think><answer>4</answer><answer>5</answer>", 0.0),
            ("<answer>4</answer><think>a</think>", 0.0),
            ("<think><answer></think></answer>", 0.0),
            ("<think>a</think>", 0.0),
            ("", 0.0),
        ],
    )
    def test_default(self, text, value):
        assert format.build()([text, chat(text)]) == [value, value]

    @given(
        st.lists(
            st.sampled_from(["<think>", "</think>", "<answer>", "</answer>", " ", "x", "\n"]), max_size=9
        ).map("".join)
    )
    def test_default_is_this_regular_expression(self, text):
        inside = r"(?:(?!</?(?:think|answer)>).)*"
        pattern = rf"<think>{inside}</think>\s*<answer>{inside}</answer>"
        expected = re.fullmatch(pattern, text.strip(), re.DOTALL) is not None
        assert format.build()([text]) == [float(expected)]

    def test_pattern_must_match_all(self):
        reward = format.build(pattern=r"\d+|a.b")
        assert reward(["12", " 12 ", "12x", "a\nb"]) == [1, 1, 0, 1]

    def test_default_is_linear_on_what_would_be_quadratic(self):
        text = "<think>" + "</think> " * 100_000 + "</answer>"
        start = time.perf_counter()
        assert format.build()([text]) == [0.0]
        assert time.perf_counter() - start < 0.1


class TestLength:
    """DAPO, equation 13, with a limit of 100 and a buffer of 20."""

    @pytest.mark.parametrize(
        ("tokens", "value"),
        [(0, 0.0), (80, 0.0), (81, -0.05), (90, -0.5), (100, -1.0), (101, -1.0), (5000, -1.0)],
    )
    def test_by_hand(self, tokens, value):
        assert length.build(max_tokens=100, buffer=20)([[1] * tokens]) == [value]

    def test_no_buffer(self):
        assert length.build(max_tokens=3, buffer=0)([[1] * 3, [1] * 4]) == [0.0, -1.0]

    def test_equals_trl(self):
        other = pytest.importorskip("trl.rewards").get_soft_overlong_punishment(100, 20)
        ids = [[1] * n for n in range(0, 130, 3)]
        assert length.build(max_tokens=100, buffer=20)(ids) == other(ids)


class TestMath:
    @pytest.mark.parametrize(
        ("answer", "completion", "value"),
        [
            ("42", "The answer is 42.", 1.0),
            ("42", "#### 42", 1.0),
            ("42", "41 or \\boxed{42}, not 43", 1.0),
            ("42", "\\boxed{43}", 0.0),
            ("42", "no idea", 0.0),
            ("42", "", 0.0),
            ("1234", "1,234 dollars", 1.0),
            ("0.5", r"\boxed{\frac12}", 1.0),
            (r"\frac{1}{2}", "$0.5$", 1.0),
            (r"p - q", r"\boxed{-q+p}", 1.0),
            (r"\left( 3, \frac{\pi}{2} \right)", r"\boxed{(3, \pi/2)}", 1.0),
            ("3", r"\boxed{1/0}", 0.0),
            ("", "42", None),
            (None, "42", None),
        ],
    )
    def test_values(self, answer, completion, value):
        reward = math.build()
        assert reward([completion, chat(completion)], [answer, answer]) == [value, value]


class TestNumbers:
    def test_numbers_of_other_kinds(self):
        import numpy as np

        assert as_numbers(np.array([1, 2]), 2) == [1.0, 2.0]
        assert as_numbers((x for x in (True, None, np.float32(0.5))), 3) == [1.0, None, 0.5]

    @pytest.mark.parametrize(
        "result", [1.0, "ab", {"a": 1, "b": 2}, None, [1, "2"], [[1], [2]], [1, 10**400]]
    )
    def test_anything_else_is_a_wrong_result(self, result):
        with pytest.raises(WrongResultError):
            as_numbers(result, 2)

    def test_another_number_of_rewards_is_told_apart(self):
        with pytest.raises(WrongLengthError):
            as_numbers([1.0], 2)


def test_text_of():
    assert text_of("a") == text_of(chat("a")) == text_of([*chat("x"), *chat("a")]) == "a"
