"""Every byte between server and clients, both ways, searched for prompts, completions and rewards."""

from __future__ import annotations

import json

import numpy as np
import pytest
from flwr.app import Message
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from hanse.grpo.step import ERRORS
from hanse.runtime.flower.envelope import HELLO, Answer, answered, ask, introduce
from hanse.runtime.flower.metrics import leaving, read_rows, written_rows
from hanse.tasks.arithmetic import build_arithmetic
from hanse.tasks.scoring.scorer import Scorer
from tests.runtime.flower.world import World, flower_recipe

GROUP = 4
BUDGET = ("federation.budget.fraction=0.3", "policy.dtype=bfloat16")


def spelled(message: Message) -> bytes:
    """All that Flower would send of a message."""
    return b"".join(part.deflate() for part in get_all_nested_objects(message).values())


class Secrets:
    """What was scored: prompts and completions as bytes, and each group's rewards in the ways one might write
    them. Only what is long enough not to turn up by chance."""

    def __init__(self) -> None:
        self.texts: set[bytes] = set()
        self.rewards: set[bytes] = set()

    def note(self, problems, completions, totals) -> None:
        self.texts |= {problem.prompt.encode() for problem in problems if len(problem.prompt) >= 5}
        self.texts |= {text.encode() for text in completions if len(text.strip()) >= 11}
        for start in range(0, len(totals), GROUP):
            group = totals[start : start + GROUP]
            if len(set(group.tolist())) > 1:
                self.rewards |= {group.astype(kind).tobytes() for kind in ("<f4", "<f8", ">f4", ">f8")}
                self.rewards.add(json.dumps(group.tolist()).encode())
                self.rewards.add(json.dumps(group.tolist(), separators=(",", ":")).encode())

    def found_in(self, data: bytes) -> set[bytes]:
        return {secret for secret in self.texts | self.rewards if secret in data}


@pytest.fixture
def secrets(monkeypatch):
    secrets, score = Secrets(), Scorer.score

    def spy(self, problems, completions, *more, **options):
        scores = score(self, problems, completions, *more, **options)
        secrets.note(problems, completions, scores.totals_N)
        return scores

    monkeypatch.setattr(Scorer, "score", spy)
    return secrets


@pytest.mark.parametrize("federation", [(), BUDGET], ids=["values", "patches, reports, grants"])
def test_no_prompt_completion_or_reward_leaves(tmp_path, secrets, federation):
    world = World(tmp_path / "nodes")
    world.train(flower_recipe("grpo.max_new_tokens=12", *federation), tmp_path)
    assert len(secrets.texts) > 20 and len(secrets.rewards) > 20
    assert len(world.grid.log) >= 2 * 3 + 2
    for sent, reply in world.grid.log:
        for message in (sent, reply):
            assert secrets.found_in(spelled(message)) == set()


def test_the_search_would_find_them(secrets):
    """The same search, on messages that leak."""
    problem = next(p for p in build_arithmetic(flower_recipe().task).problems("train") if len(p.prompt) >= 5)
    totals = np.array([0.0, 1.0, 0.5, 1.0], dtype=np.float32)
    secrets.note([problem] * GROUP, ["12345678901", "a", "b", "c"], totals)
    for leak in (problem.prompt.encode(), b"x12345678901y", totals.tobytes(), b"[0.0,1.0,0.5,1.0]"):
        message = Message(ask(leak, "0" * 32), dst_node_id=1, message_type=HELLO)
        assert secrets.found_in(spelled(message))
    told = Message(introduce({"note": f"I was asked {problem.prompt}"}), dst_node_id=1, message_type=HELLO)
    assert secrets.found_in(spelled(told)) == {problem.prompt.encode()}
    rows = [{"rewards": 1.0}]
    assert not secrets.found_in(
        spelled(Message(answered(Answer(b"", rows)), dst_node_id=1, message_type=HELLO))
    )


def test_messages_of_reward_functions_stay():
    rows = [{"loss": 1.0, f"{ERRORS}could not read '12+34=46'": 2.0, "unscored": 2, "bad name": 1.0}]
    assert leaving(rows, prompts=8) == [{"loss": 1.0, "unscored": 2}]


def test_steps_of_a_single_prompt_are_merged():
    rows = [{"reward": 1.0, "num_tokens": 10}, {"reward": 0.0, "num_tokens": 20}]
    assert leaving(rows, prompts=1) == [{"reward": 0.5, "num_tokens": 30}]
    assert leaving(rows, prompts=2) == rows


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[1]", '[{"a": "b"}]', '[{"a": true}]', '[{"a": 1e999}]', '[{"a b": 1}]', "[{}][{}]"),
        *(json.dumps([{}] * 1025), json.dumps([{str(i): 1 for i in range(257)}])),
        *("[" * 3000, "1" * (1 << 21)),
    ],
)
def test_rows_that_are_none_are_refused(text):
    with pytest.raises(ValueError, match="metrics"):
        read_rows(text)


def test_rows_come_back_as_they_were():
    rows = [{"loss": -0.25, "rewards/exact/mean": 1.0}, {}]
    assert read_rows(written_rows(rows)) == rows
