"""Who is asked what, and what a server makes of what it hears."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hanse.federation.reward_only.jury import Jury, answer_pairs, mean_scores
from hanse.federation.reward_only.messages import Answers, Candidates, Judgement, Quiz
from hanse.federation.wire.frame import kind_of
from hanse.recipe.reward_only import RewardOnlySpec
from hanse.tasks.problem import Problem
from hanse.tasks.scoring.scores import Scores

NAN = float("nan")
AUXILIARY = [Problem("a", "aaaa", "1"), Problem("b", "bbbb", "2")]
QUESTIONS = [Problem("x", "aaab"), Problem("y", "bbba")]


class Exact:
    def score(self, problems, completions, ids=None, *, group_size=None):
        marks = np.array([float(p.answer == c) for p, c in zip(problems, completions, strict=True)])
        return Scores(("exact",), marks, marks[None])


class Clients:
    """Client 0 knows what is near "aaaa", client 1 what is near "bbbb"; both score by length."""

    def __init__(self) -> None:
        self.silent, self.lying, self.heard = set[int](), dict[int, bytes](), list[dict[int, bytes]]()

    def __call__(self, messages):
        self.heard.append(dict(messages))
        replies = {k: self.reply(k, data) for k, data in messages.items() if k not in self.silent}
        return replies | {k: lie for k, lie in self.lying.items() if k in messages}

    def reply(self, client, data):
        if kind_of(data) == "quiz":
            return Answers(
                Quiz.from_bytes(data).number, client, ("1", "?") if client == 0 else ("?", "2")
            ).to_bytes()
        asked = Candidates.from_bytes(data)
        scores = [min(1.0, len(text) / 4) for row in asked.texts_PG for text in row]
        return Judgement(asked.number, client, np.array(scores)).to_bytes()

    def asked(self):
        return {k: Candidates.from_bytes(data).prompts for k, data in self.heard[-1].items()}


def jury_of(clients: Clients, experts: int = 1, **changes) -> Jury:
    spec = RewardOnlySpec(auxiliary=2, nearest=1, experts=experts, ngram=1, **changes)
    jury = Jury(spec, 2, AUXILIARY, clients, seed=0)
    jury.examine(Exact())
    return jury


def scored(jury: Jury) -> list[float]:
    repeated = [question for question in QUESTIONS for _ in range(2)]
    return jury.score(repeated, ["", "xx", "xxxx", "x"], group_size=2).totals_N.tolist()


def test_each_question_goes_to_who_knows_its_like():
    clients = Clients()
    jury = jury_of(clients)
    assert jury.state.right_KA.tolist() == [[1, 0], [0, 1]]
    assert scored(jury) == [0.0, 0.5, 1.0, 0.25]
    assert clients.asked() == {0: ("aaab",), 1: ("bbba",)}
    jury.examine(Exact())
    assert len(clients.heard) == 2  # one quiz a run


def test_random_experts_need_no_examination_and_stay_with_their_question():
    clients = Clients()
    jury = jury_of(clients, choice="random")
    assert clients.heard == [] and jury.state.right_KA is None
    scored(jury)
    first = clients.asked()
    scored(jury)
    assert clients.asked() == first and sorted(q for own in first.values() for q in own) == ["aaab", "bbba"]
    chosen = set()
    for seed in range(8):
        jury.seed = seed
        scored(jury)
        chosen.add(str(clients.asked()))
    assert len(chosen) == 4  # each question to either client


class Models(Clients):
    """Client 0 prefers "1", client 1 whatever stands first."""

    def reply(self, client, data):
        asked = Candidates.from_bytes(data)
        if client == 0:
            scores = [float(text == "1") for row in asked.texts_PG for text in row]
        else:
            scores = [0.9, 0.1] * len(asked.prompts)
        return Judgement(asked.number, client, np.array(scores)).to_bytes()


def test_reward_models_are_examined_by_pairs_in_drawn_order():
    clients = Models()
    auxiliary = [Problem(f"a{i}", "a" * (i + 1), "1") for i in range(20)]
    auxiliary += [Problem("b", "bb", "2"), Problem("c", "cc", None)]
    spec = RewardOnlySpec(auxiliary=22, nearest=1, experts=1, models=["x", "y"])
    jury = Jury(spec, 2, auxiliary, clients, seed=0)
    jury.examine(Exact())
    right = jury.state.right_KA
    assert right[0].tolist() == [1.0] * 20 + [0.0, 0.0]  # "2" is right of "bb"; "cc" has no answer
    assert 3 < right[1, :21].sum() < 18 and right[1, 21] == 0
    (sent,) = clients.heard
    assert sent[0] == sent[1] and len(Candidates.from_bytes(sent[0]).prompts) == 21
    clients.silent = {0}
    later = Jury(spec, 2, auxiliary, clients, seed=0)
    later.examine(Exact())
    assert torch.isnan(later.state.right_KA[0]).all() and later.state.ledger["client 0: no reply"] == 1


def test_pairs_are_of_different_answers():
    known = [Problem(str(i), "q", answer) for i, answer in enumerate(["1", "1", None, "2"])]
    assert answer_pairs(known) == {0: ("1", "2"), 1: ("1", "2"), 3: ("2", "1")}
    assert answer_pairs(known[:3]) == {}
    jury = Jury(RewardOnlySpec(models=["x"]), 1, known[:3], lambda _: {}, seed=0)
    jury.examine(Exact())
    assert jury.state.right_KA.tolist() == [[0.0, 0.0, 0.0]]


def test_bytes_are_those_that_travelled_both_ways():
    clients = Clients()
    jury = jury_of(clients)
    scored(jury)
    assert jury.state.bytes_down == sum(len(d) for sent in clients.heard for d in sent.values())
    assert jury.state.bytes_up == sum(len(clients.reply(k, d)) for s in clients.heard for k, d in s.items())


def test_a_bad_reply_leaves_the_others_mean_and_is_counted():
    clients = Clients()
    jury = jury_of(clients, experts=2)
    assert clients.heard and scored(jury) == [0.0, 0.5, 1.0, 0.25]
    clients.lying = {1: b"nonsense"}
    assert scored(jury) == [0.0, 0.5, 1.0, 0.25]
    assert sum(jury.state.ledger.values()) == 1 and jury.take_refused()[0][0] == 1
    clients.silent, clients.lying = {0}, {}
    assert scored(jury) == [0.0, 0.5, 1.0, 0.25]
    assert jury.state.ledger["client 0: no reply"] == 1


def test_what_nobody_scored_is_unscored_and_a_stranger_is_not_heard():
    clients = Clients()
    jury = jury_of(clients)
    clients.silent = {0}
    totals = jury.score(QUESTIONS[:1] * 2, ["x", "xx"], group_size=2)
    assert np.isnan(totals.totals_N).all() and totals.failures == {"no expert": 2}
    clients.lying = {7: b"hello"}
    assert scored(jury)[2:] == [1.0, 0.25]


def test_what_is_too_long_to_ask_is_not_asked(monkeypatch):
    clients = Clients()
    jury = jury_of(clients)
    monkeypatch.setattr("hanse.federation.reward_only.jury.MAX_BYTES", 400)
    down = jury.state.bytes_down
    assert np.isnan(jury.score(QUESTIONS[:1] * 2, ["x" * 500, "x"], group_size=2).totals_N).all()
    assert clients.heard[-1] == {} and jury.state.bytes_down == down
    assert "more than 400" in next(iter(jury.state.ledger))
    assert scored(jury) == [0.0, 0.5, 1.0, 0.25]


def test_who_answered_no_quiz_is_asked_last():
    clients = Clients()
    clients.silent = {0}
    jury = jury_of(clients)
    clients.silent = set()
    scored(jury)
    assert clients.asked() == {1: ("aaab", "bbba")}
    assert torch.isnan(jury.state.right_KA[0]).all()


def test_means_are_over_those_who_scored_the_whole_group():
    rows = np.array([[[1.0, 0.0], [NAN, 1.0]], [[0.0, 0.0], [0.5, 1.0]], [[NAN, NAN], [NAN, NAN]]])
    assert mean_scores(rows).tolist() == [[0.5, 0.0], [0.5, 1.0]]
    assert np.isnan(mean_scores(rows[2:])).all()


def test_one_expert_with_the_truth_is_ordinary_scoring():
    """The released default: with ground truth at the client, rewards are those of a central run."""
    central = Exact().score([Problem("x", "q", "11")] * 2, ["11", "1"]).totals_N

    class Owner(Clients):
        def reply(self, client, data):
            if kind_of(data) == "quiz":
                return super().reply(client, data)
            asked = Candidates.from_bytes(data)
            marks = [float(text == "11") for row in asked.texts_PG for text in row]
            return Judgement(asked.number, client, np.array(marks)).to_bytes()

    got = jury_of(Owner()).score([Problem("x", "q")] * 2, ["11", "1"], group_size=2)
    assert got.totals_N == pytest.approx(central)
