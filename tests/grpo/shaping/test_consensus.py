"""Consensus nodes and their rewards: by hand, and against what would cheat them."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanse.errors import RecipeError
from hanse.grpo.shaping.consensus.coverage import (
    Coverage,
    coverage,
    process_reward,
    tokens_per_node,
    weight_of_process,
)
from hanse.grpo.shaping.consensus.nodes import Node, consensus
from hanse.grpo.shaping.consensus.store import FORMAT, Found, load_nodes, save_nodes
from hanse.grpo.shaping.shape import shape_rewards
from hanse.recipe.shaping import BuildSpec, ConsensusSpec, ShapingSpec
from tests.grpo.shaping.groups import group_of

QUESTION = "A farmer has 12 cows and buys 3 times 4 more, then sells 5. How many?"
RIGHT = [
    "3 * 4 = 12 so 12 + 12 = 24, then 24 - 5 = 19. #### 19",
    "4*3 = 12. 12 + 12 = 24. 24 - 5 = 19 #### 19",
    "first 24 cows, 24 - 5 = 19 #### 19",
]


def keys(nodes: list[Node]) -> list[tuple[str, float]]:
    return [(node.key, round(node.support, 3)) for node in nodes]


def test_nodes_of_right_completions_by_hand() -> None:
    # 24 - 5 = 19 is the answer itself; 12, 3, 4 and 5 are the question's; 24 has an equality that gives it
    found = consensus(QUESTION, "19", RIGHT, BuildSpec())
    assert keys(found) == [("(*3 *4)=12", 0.667), ("(+12 +12)=24", 0.667)]
    # with more support asked for, only the number is left, which all of them name
    assert keys(consensus(QUESTION, "19", RIGHT, BuildSpec(support=0.9))) == [("#24", 1.0)]
    assert keys(consensus(QUESTION, "19", RIGHT, BuildSpec(most=1))) == [("(*3 *4)=12", 0.667)]


def test_too_few_right_ones_make_no_node() -> None:
    assert consensus(QUESTION, "19", RIGHT[:1], BuildSpec()) == []
    assert consensus(QUESTION, "19", [], BuildSpec()) == []
    assert len(consensus(QUESTION, "19", RIGHT[:1], BuildSpec(least=1))) == 2


@given(st.permutations(RIGHT))
def test_the_order_of_completions_does_not_matter(texts: list[str]) -> None:
    assert consensus(QUESTION, "19", texts, BuildSpec()) == consensus(QUESTION, "19", RIGHT, BuildSpec())


def test_reference_question_and_dump() -> None:
    nodes = consensus(QUESTION, "19", RIGHT, BuildSpec())
    assert coverage(nodes, RIGHT[0], QUESTION) == Coverage(2, 2, 2)
    assert coverage(nodes, QUESTION, QUESTION).rate == 0.0
    # paraphrased, in another order, each counted once
    told = "12+12 = 24 since 12 = 4 × 3; again 12 + 12 = 24"
    assert coverage(nodes, told, QUESTION).rate == 1.0
    # what comes behind the answer is too late
    assert coverage(nodes, "#### 19 as 3 * 4 = 12", QUESTION).rate == 0.0
    by_number = [Node("#24", "24", 1.0)]
    dump = " ".join(str(n) for n in range(100))
    covered = coverage(by_number, dump, QUESTION)
    assert covered.rate == 1.0 and covered.named == 100 - 4
    assert covered.guarded(4.0) == pytest.approx(4 / 96)
    assert coverage(by_number, "24 25 26 27", QUESTION).guarded(4.0) == 1.0
    assert Coverage(0, 0, 0).guarded(4.0) == 0.0


@given(st.text("0123456789+=* ", max_size=60))
def test_coverage_is_a_share(text: str) -> None:
    covered = coverage(consensus(QUESTION, "19", RIGHT, BuildSpec()), text, QUESTION)
    assert 0 <= covered.guarded(1.0) <= covered.rate <= 1


def test_rewards_and_curricula_by_hand() -> None:
    assert process_reward(1.0, 0.5, 0.5) == 0.75
    assert process_reward(1.0, 0.0, 0.0) == 1.0
    assert tokens_per_node(30, 0) == 30.0 and tokens_per_node(30, 4) == 7.5
    at = [(c, [weight_of_process(0.4, c, p, 0.5) for p in (0.0, 0.49, 0.5, 0.9)]) for c in ("mix",)]
    assert at == [("mix", [0.4] * 4)]
    assert [weight_of_process(0.4, "process-first", p, 0.5) for p in (0.0, 0.49, 0.5)] == [0.4, 0.4, 0.0]
    assert [weight_of_process(0.4, "outcome-first", p, 0.5) for p in (0.0, 0.49, 0.5)] == [0.0, 0.0, 0.4]


def test_a_group_s_rewards(tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    save_nodes(path, {}, {"p": Found(3, 4, tuple(consensus(QUESTION, "19", RIGHT, BuildSpec())))})
    texts = [[RIGHT[0], "3 * 4 = 12 #### 18", "#### 19"], ["#### 1", "3 * 4 = 12", "x"]]
    groups = [group_of("p", texts[0], QUESTION), group_of("without", texts[1], QUESTION)]
    rewards = torch.tensor([[1.0, 0.0, 1.0], [1.0, 0.0, math.nan]], dtype=torch.float64)
    spec = ShapingSpec(consensus=ConsensusSpec(enabled=True, nodes=str(path)))
    found = shape_rewards(groups, texts, rewards, spec, 0.0)
    assert found.rewards_PG[0].tolist() == [1.0, 0.25, 0.5]
    assert found.rewards_PG[1, :2].tolist() == [1.0, 0.0] and bool(found.rewards_PG[1, 2].isnan())
    assert rewards[0].tolist() == [1.0, 0.0, 1.0]
    assert found.metrics["shaping/ncr"] == pytest.approx((1 + 0.5 + 0) / 3)
    lengths = [len(text) for text in texts[0]]
    assert found.metrics["shaping/tpn"] == pytest.approx((lengths[0] / 2 + lengths[1] + lengths[2]) / 3)
    assert found.metrics["shaping/with_nodes"] == 0.5


NODE = {"key": "#1", "text": "1", "support": 1.0}
ROW = {"right": 1, "rollouts": 2, "nodes": [NODE]}


@pytest.mark.parametrize(
    "rows",
    [
        [],
        {"p": []},
        {"p": ROW | {"right": 3}},
        {"p": ROW | {"right": True}},
        {"p": ROW | {"nodes": [NODE, NODE]}},
        {"p": ROW | {"nodes": [NODE | {"support": 0.0}]}},
        {"p": ROW | {"nodes": [NODE | {"support": math.nan}]}},
        {"p": ROW | {"nodes": [NODE | {"key": ""}]}},
        {"p": ROW | {"nodes": [NODE | {"text": "1" * 5000}]}},
        {"p": ROW | {"nodes": [NODE | {"more": 1}]}},
        {"p": ROW | {"nodes": [NODE | {"key": f"#{i}"} for i in range(2000)]}},
    ],
)
def test_a_file_of_another_form_is_refused_by_its_field(tmp_path: Path, rows: Any) -> None:
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps({"format": FORMAT, "problems": rows}))
    with pytest.raises(RecipeError) as caught:
        load_nodes(path)
    assert caught.value.field == "grpo.shaping.consensus.nodes"
    assert "no file of nodes" in caught.value.problem and "hanse consensus build" in caught.value.remedy


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 100_000, b"\xff", b'{"format": "other"}'])
def test_no_file_of_nodes(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "nodes.json"
    path.write_bytes(content)
    with pytest.raises(RecipeError):
        load_nodes(path)
    with pytest.raises(RecipeError, match="cannot be read"):
        load_nodes(tmp_path / "none.json")


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    save_nodes(path, {}, {"p": Found(1, 2, ())})
    assert load_nodes(path)["p"].rollouts == 2
    save_nodes(path, {}, {"p": Found(1, 12, ())})
    assert load_nodes(path)["p"].rollouts == 12


def test_what_is_no_file_is_never_read(tmp_path):
    """A device says that it has no bytes, and gives them without end."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(RecipeError, match="it has no size"):
            load_nodes(path)
