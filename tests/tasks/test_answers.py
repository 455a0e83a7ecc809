import pytest

from hanse.tasks.answers import extract_answer, last_boxed


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("He has 2 + 3 = 5 apples.\n#### 5", "5"),
        ("#### 1\n#### 1,234", "1234"),
        ("####  -7 ", "-7"),
        ("no mark 5", None),
        ("#### ", None),
    ],
)
def test_gsm8k(text, answer):
    assert extract_answer(text, "gsm8k") == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so $\boxed{42}$.", "42"),
        (r"\boxed{1} then \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\fbox{ x }", "x"),
        (r"\boxed{1} and \fbox{2}", "2"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{a \} b}", r"a \} b"),
        (r"\boxed{\text{a {b} c}} tail }", r"\text{a {b} c}"),
        (r"\boxed{1", None),
        ("42", None),
        ("\\boxed{1\\", None),
    ],
)
def test_boxed(text, answer):
    assert last_boxed(text) == answer
    assert extract_answer(text, "boxed") == answer


def test_plain():
    assert extract_answer(" 42\n", "plain") == "42"
