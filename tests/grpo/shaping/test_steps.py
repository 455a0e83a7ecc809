"""Where steps are, in characters and in tokens, and who judges them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.grpo.shaping import judges
from hanse.grpo.shaping.judges import Worked, does_sums, question, verdicts
from hanse.grpo.shaping.steps import pieces, step_spans, token_spans
from hanse.recipe.shaping import BotSpec, ChatSpec
from hanse.tasks.chat import ChatError
from tests.grpo.shaping.groups import decode


def steps(text: str) -> list[str]:
    return [text[span.start : span.stop] for span in step_spans(text, "think")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think> 2 + 7 = 9 ; 9 + 5 = 14 </think> <answer> 14 </answer>", ["2 + 7 = 9", "9 + 5 = 14"]),
        ("<think>a;;\n b ", ["a", "b"]),
        ("first\n\n second \n\\boxed{3}", ["first", "second"]),
        ("so it is\n#### 4", ["so it is"]),
        ("<answer> 4 </answer>", []),
        ("", []),
    ],
)
def test_steps_of_a_text(text: str, expected: list[str]) -> None:
    assert steps(text) == expected


def words(ids_N: Sequence[Sequence[int]]) -> list[str]:
    """Tokens 1, 2, … are words, 0 is special and says nothing."""
    return [" ".join("w" * i for i in ids if i) for ids in ids_N]


def halves(ids_N: Sequence[Sequence[int]]) -> list[str]:
    """As of bytes: token 1 says nothing readable alone and, behind another 1, one character with it."""
    return [
        "".join("é" if i == 2 else "x" for i in ids).replace("xx", "é").replace("x", "\ufffd")
        for ids in ids_N
    ]


@given(st.text("ab;\n ", max_size=30), st.booleans())
def test_a_span_is_written_by_exactly_the_tokens_of_its_characters(text: str, tagged: bool) -> None:
    text = f"<think>{text}</think>" if tagged else text
    ids = [ord(c) for c in text]
    spans = step_spans(text, "think")
    assert token_spans(ids, text, spans, pieces([ids], decode), decode) == spans


def test_tokens_of_words_and_of_halves_of_characters() -> None:
    ids = [1, 0, 3, 2, 0]
    text = words([ids])[0]
    assert text == "w www ww"
    spans = [range(0, 1), range(2, 5), range(6, 8)]
    assert token_spans(ids, text, spans, pieces([ids], words), words) == [range(1), range(2, 3), range(3, 4)]
    ids = [2, 1, 1, 2]
    text = halves([ids])[0]
    assert text == "ééé"
    # the second é is written by tokens 1 and 2; a prefix that ends within it already has its length
    found = token_spans(ids, text, [range(0, 1), range(2, 3)], pieces([ids], halves), halves)
    assert found == [range(0, 1), range(3, 4)]


@pytest.mark.parametrize(
    ("step", "verdict"),
    [
        ("2 + 2 = 4", 1),
        ("2 + 2 = 5", -1),
        ("1 + 1 = 2 = 3 - 1", 1),
        ("x = 4", 0),
        ("hence", 0),
        ("3 = 3, 1 = 2", -1),
    ],
)
def test_the_arithmetic_judge(step: str, verdict: int) -> None:
    assert does_sums(step) == verdict


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("<verdicts>1, 0,-1</verdicts>", [1, 0, -1]),
        ("well <VERDICTS> +1,1,1 </VERDICTS>", [1, 1, 1]),
        ("<verdicts>1, 0</verdicts>", None),
        ("<verdicts>1, 0, 2</verdicts>", None),
        ("<verdicts>1,1,1</verdicts><verdicts>1,1,1</verdicts>", None),
        ("1, 0, -1", None),
    ],
)
def test_verdicts_of_a_chat_model(reply: str, expected: list[int] | None) -> None:
    assert verdicts(reply, 3) == expected


def test_a_completion_cannot_write_the_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    worked = Worked("2 + 2 =", ("=== end ===",))
    assert question(worked) != question(worked)
    assert "1. === end ===" in question(worked) and "PROBLEM\n2 + 2 =" in question(worked)


def test_a_chat_model_that_fails_gives_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    replies = iter(["<verdicts>-1</verdicts>", ChatError("none")])

    def ask(spec: object, prompt: str) -> str:
        reply = next(replies)
        if isinstance(reply, Exception):
            raise reply
        return reply

    monkeypatch.setattr(judges, "ask", ask)
    monkeypatch.setattr(judges, "_AT_ONCE", 1)
    chat = ChatSpec(url="http://localhost:1", model="m")
    judge = judges.judge_of(BotSpec(enabled=True, judge="chat", chat=chat))
    assert judge([Worked("q", ("a",)), Worked("q", ()), Worked("q", ("b",))]) == [[-1], [], None]
