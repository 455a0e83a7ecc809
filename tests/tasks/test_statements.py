"""What texts state: the same key however it is written, exact values, bounds."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.tasks.expressions import parse, plain, tokens, value
from hanse.tasks.statements import before_answer, equalities, values


def key_of(text: str) -> str | None:
    (one,) = equalities(text)
    return one.key


@pytest.mark.parametrize(
    "spellings",
    [
        ["2 + 7 = 9", "7+2=9", "9 = 2 + 7", "so (2+7) = 9.", "$7 + 2 = 9.0$", "\\(2+7=\\boxed{9}\\)"],
        ["3 * 4 = 12", "4 × 3 = 12", "4 \\times 3 = 12", "3(4) = 12", "12 = 4\\cdot3"],
        ["1/2 + 1/3 = 5/6", "\\frac{1}{3} + \\frac12 = 5/6".replace("\\frac12", "\\frac{1}{2}")],
        ["1,234 + 1 = 1235", "1234 + 1 = 1,235", "1{,}234+1=1235"],
        ["12 - 5 = 7", "12 − 5 = 7", "- 5 + 12 = 7"],
        ["2^10 = 1024", "2 ^ 10 = 1,024"],
        ["2x + 3 = 7", "7 = 3 + 2x", "x = 2", "4x = 8", "2*x + 3 = 7"],
        ["x + y = 5", "y = 5 - x"],
    ],
)
def test_one_statement_has_one_key(spellings: list[str]) -> None:
    keys = {key_of(text) for text in spellings}
    assert len(keys) == 1 and None not in keys


@pytest.mark.parametrize(
    ("first", "second"),
    [("2 + 7 = 9", "3 + 6 = 9"), ("x = 2", "y = 2"), ("x = 2", "x = 3"), ("12 - 5 = 7", "5 + 2 = 7")],
)
def test_other_statements_have_other_keys(first: str, second: str) -> None:
    assert key_of(first) != key_of(second)


@pytest.mark.parametrize("text", ["9 = 9", "x + 1 = 1 + x", "2 + 2 = 5", "1/0 = 3", "2^999 = 3"])
def test_what_states_nothing_or_is_wrong_has_no_key(text: str) -> None:
    assert key_of(text) is None


def test_chains_and_prose() -> None:
    found = equalities("We get a 3 * 4 = 12 = 10 + 2, hence 12-5=8; and b = c ==")
    assert [(one.text, one.holds) for one in found] == [
        ("3 * 4 = 12", True),
        ("12 = 10 + 2", True),
        ("12 - 5 = 8", False),
        ("b = c", None),
    ]
    assert [one.value for one in found[:2]] == [Fraction(12)] * 2


def test_values_of_a_text() -> None:
    assert values("from 1,200 and 3/6 to 2.50") == {
        Fraction(1200),
        Fraction(3),
        Fraction(6),
        Fraction(1, 2),
        Fraction(5, 2),
    }
    assert values("9" * 19 + " and 1/0") == {Fraction(1), Fraction(0)}


def test_what_stands_before_the_answer() -> None:
    assert before_answer("a <answer> 3 </answer>") == "a "
    assert before_answer("a \\boxed{3} b #### 3") == "a "
    assert before_answer("a") == "a"


EXPRESSIONS = st.recursive(
    st.integers(0, 99).map(str),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda one: f"({one})"),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS, EXPRESSIONS)
def test_values_are_python_s_and_sums_commute(a: str, b: str) -> None:
    node = parse(tokens(plain(a)))
    assert node is not None
    assert value(node) == eval(a)
    total = eval(f"{a} + {b}")
    assert key_of(f"{a} + {b} = {total}") == key_of(f"{b} + {a} = {total}") if total >= 0 else True


@given(st.text("0123456789+-*/^()= xyab.,\\{}$\n", max_size=200))
def test_no_text_is_too_strange(text: str) -> None:
    equalities(text)
    values(text)


def test_hostile_texts_are_read_within_bounds() -> None:
    for text in ("(" * 9000 + "=", "1+" * 9000 + "1=3", "1=" * 3000, "9" * 9000 + "=9", "9^9^9^9=1"):
        assert len(equalities(text)) < 3001
    assert equalities("((((((((((((((((((((1)))))))))))))))))))) = 1")[:1] == []
    assert [one.holds for one in equalities("9^64^64 = 1")] == [None]
