"""Round trips, and what is refused of what others send."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.federation.reward_only.messages import MAX_TEXT, Answers, Candidates, Judgement, Quiz
from hanse.federation.wire.frame import WireError, encode_frame

QUIZ = Quiz(3, ("1+1=", ({"role": "user", "content": "Zwei – ¾?"},)))
ASKED = Candidates(4, ("1+1=", "2+2="), (("2", "3"), ("4", "")))


def judgement(scores=(0.0, 1.0, 0.5, 1.0), number=4, client=1) -> bytes:
    return Judgement(number, client, np.array(scores)).to_bytes()


def read(data: bytes) -> Judgement:
    return Judgement.from_bytes(data, ASKED, 1, 0.0, 1.0)


def test_round_trips():
    assert Quiz.from_bytes(QUIZ.to_bytes()) == QUIZ
    assert Candidates.from_bytes(ASKED.to_bytes()) == ASKED
    answers = Answers(3, 1, ("2", "ja"))
    assert Answers.from_bytes(answers.to_bytes(), QUIZ, 1) == answers
    got = read(judgement((0.0, 1.0, np.nan, 0.25))).scores_N
    assert got == pytest.approx([0.0, 1.0, np.nan, 0.25], nan_ok=True)


def test_a_score_takes_five_bytes():
    one = len(Judgement(4, 1, np.zeros(100)).to_bytes()) - len(Judgement(4, 1, np.zeros(10)).to_bytes())
    assert 5 * 90 <= one <= 5 * 90 + 4  # and digits of lengths in the header


@pytest.mark.parametrize(
    "data",
    [
        judgement((0.0, 1.5, 0.5, 1.0)),
        judgement((0.0, -0.1, 0.5, 1.0)),
        judgement((0.0, 1.0, 0.5)),
        judgement(number=5),
        judgement(client=2),
        judgement()[:-1],
        b"",
        Answers(4, 1, ("2", "3")).to_bytes(),
        encode_frame(
            "judgement", {"number": 4, "client": 1}, [np.full(4, np.nan, "<f4").tobytes(), b"\1" * 4]
        ),
        encode_frame("judgement", {"number": 4, "client": 1}, [np.zeros(4, "<f4").tobytes(), b"\2" * 4]),
        encode_frame("judgement", {"number": 4, "client": 1}, [np.zeros(4, "<f4").tobytes()]),
    ],
)
def test_scores_that_are_refused(data):
    with pytest.raises(WireError):
        read(data)


def answers(sizes, text: bytes, number=3, client=1) -> bytes:
    fields = {"number": number, "client": client}
    return encode_frame("answers", fields, [np.array(sizes, "<u4").tobytes(), text])


@pytest.mark.parametrize(
    "data",
    [
        answers([1, 1], b"2"),
        answers([1, 1], b"234"),
        answers([3], b"234"),
        answers([1, 1, 1], b"234"),
        answers([2**32 - 1, 2**32 - 1], b"23"),
        answers([1, 1], b"2\xff"),
        answers([1, 1], b"23", number=4),
        answers([1, 1], b"23", client=2),
        encode_frame("answers", {"number": 3, "client": 1}, [b'["2", "3"]']),
        QUIZ.to_bytes(),
    ],
)
def test_answers_that_are_refused(data):
    assert Answers.from_bytes(answers([1, 1], b"23"), QUIZ, 1).texts == ("2", "3")
    with pytest.raises(WireError):
        Answers.from_bytes(data, QUIZ, 1)


def test_long_texts_are_cut_by_the_honest_and_refused_from_others():
    cut = Answers.from_bytes(Answers(3, 1, ("ä" * (MAX_TEXT + 1), "")).to_bytes(), QUIZ, 1)
    assert len(cut.texts[0]) == MAX_TEXT
    with pytest.raises(WireError, match="at most"):
        Answers.from_bytes(answers([MAX_TEXT + 1, 0], b"x" * (MAX_TEXT + 1)), QUIZ, 1)
    long = Candidates(4, ("1+1=",), (("x" * (MAX_TEXT + 1), "2"),))
    assert len(Candidates.from_bytes(long.to_bytes()).texts_PG[0][0]) == MAX_TEXT


@pytest.mark.parametrize(
    "body", [b"[]", b'[["a"], [["b"], ["c"]]]', b'[["a", "b"], [["b"], ["c", "d"]]]', b"[[3],[[]]]"]
)
def test_candidates_that_are_refused(body):
    with pytest.raises(WireError):
        Candidates.from_bytes(encode_frame("candidates", {"number": 4}, [body]))


@given(st.binary(max_size=80), st.integers(0, 400))
@settings(max_examples=60)
def test_changed_bytes_are_refused(noise, place):
    data = judgement()
    place %= len(data)
    changed = data[:place] + noise + data[place + len(noise) :]
    if changed != data:
        with pytest.raises(WireError):
            read(changed)
