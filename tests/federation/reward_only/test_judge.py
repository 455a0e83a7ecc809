"""By what a client scores: its own truth where it has it, else its own model's answer."""

from __future__ import annotations

import numpy as np
import pytest

from grpo.toys import make_policy, spec_of
from hanse.federation.client import ClientState
from hanse.federation.reward_only.client import Judge, squashed
from hanse.federation.reward_only.messages import Answers, Candidates, Judgement, Quiz
from hanse.federation.wire.frame import WireError, encode_frame
from hanse.federation.wire.layout import Layout
from hanse.grpo.learner import Learner, LearnerState
from hanse.grpo.optimiser import Moments
from hanse.policy.sampler import Sampler, Sampling
from hanse.recipe.federation import FederationSpec
from hanse.tasks.answers import stated_answer
from hanse.tasks.problem import Problem
from hanse.tasks.scoring.scores import Scores


class Exact:
    def score(self, problems, completions, ids=None, *, group_size=None):
        marks = np.array([float(p.answer == c.strip()) for p, c in zip(problems, completions, strict=True)])
        return Scores(("exact",), marks, marks[None])


class World:
    def __init__(self, own_steps: int = 0) -> None:
        self.policy = make_policy()
        self.learner = Learner(self.policy, spec_of(), 10)
        self.sampler = Sampler(self.policy, Sampling(5))
        parameters = self.policy.parameters
        self.start = parameters.master.clone()
        self.judge = Judge(
            1,
            "one",
            [Problem("own", "1+2=", "3")],
            0,
            FederationSpec(),
            1,
            Layout(parameters.names, parameters.shapes, "float32"),
            ClientState(LearnerState(Moments.zeros(self.start))),
            start=self.start,
            own_steps=own_steps,
        )

    def ask(self, message) -> bytes:
        self.policy.load(self.start * 0)  # somebody else's values
        return self.judge.answer(message.to_bytes(), self.sampler, Exact(), self.learner)[0]

    def answer(self, prompt: str) -> str:
        quiz = Quiz(1, (prompt,))
        return Answers.from_bytes(self.ask(quiz), quiz, 1).texts[0]


def test_own_truth_first_then_agreement_with_the_own_model():
    world = World()
    said = world.answer("4+4=")
    asked = Candidates(2, ("1+2=", "4+4="), (("3", "4"), (said, said + "1")))
    got = Judgement.from_bytes(world.ask(asked), asked, 1, 0, 1)
    assert stated_answer(said) and got.scores_N.tolist() == [1.0, 0.0, 1.0, 0.0]


class Lengths:
    """A reward model that prefers long texts, of which it can read those without a "9" only."""

    def score(self, problems, completions, ids=None, *, group_size=None):
        marks = np.array([np.nan if "9" in c else float(len(c) - 1) for c in completions])
        return Scores(("lengths",), marks, marks[None])


def test_a_reward_model_scores_what_the_client_does_not_own():
    world = World()
    world.judge.by_model, world.judge.within = Lengths(), (-1.0, 3.0)
    asked = Candidates(2, ("4+4=", "1+2="), (("1", "11", "9"), ("3", "44", "9")))
    got = Judgement.from_bytes(world.ask(asked), asked, 1, -1.0, 3.0).scores_N
    first = -1 + 4 / (1 + np.exp(-1))
    assert got == pytest.approx([1.0, first, np.nan, 1.0, 0.0, 0.0], nan_ok=True)
    assert world.judge.state.personal is None  # no other model is made
    with pytest.raises(WireError):
        world.ask(Quiz(1, ("1+1=",)))


def test_squashed_scores_stay_within():
    scores = np.array([-1e30, -1.0, 0.0, 1.0, 1e30, np.nan])
    got = squashed(scores, 2.0, 6.0)
    assert got[2] == 4 and got[1] + got[3] == pytest.approx(8) and np.isnan(got[5])
    assert got[0] == pytest.approx(2) and got[4] == pytest.approx(6) and np.nanmax(got) <= 6


def test_the_own_model_is_trained_once_and_then_stays():
    world = World(own_steps=2)
    world.judge.problems = [Problem("own", "1+2=", "3"), Problem("other", "2+2=", "4")]
    rows = [
        len(world.judge.answer(Quiz(n, ("1+1=",)).to_bytes(), world.sampler, Digits(), world.learner)[1])
        for n in (1, 2)
    ]
    assert rows == [2, 0]
    kept = world.judge.state.personal
    assert not np.array_equal(kept, world.start)
    world.answer("1+1=")
    assert world.judge.state.personal is kept


class Digits(Exact):
    def score(self, problems, completions, ids=None, *, group_size=None):
        marks = np.array([len(set(c)) / 6 for c in completions])
        return Scores(("digits",), marks, marks[None])


def test_other_messages_are_refused():
    with pytest.raises(WireError):
        World().judge.answer(encode_frame("grant", {}), None, None, World().learner)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (" 42\n", "42"),
        ("so \\boxed{\\frac{1}{2}}.", "\\frac{1}{2}"),
        ("1,2 #### 1,234", "1234"),
        ("<think>a</think><answer> 7 </answer>", "7"),
        ("  ", ""),
    ],
)
def test_stated_answers(text, answer):
    assert stated_answer(text) == answer
