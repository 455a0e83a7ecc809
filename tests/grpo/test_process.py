"""Figures about the way to an answer, by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from hanse.grpo.process import process_of, solution
from hanse.grpo.shaping.consensus.nodes import Node
from hanse.grpo.shaping.consensus.store import Found, save_nodes
from hanse.recipe.model import EvaluationSpec
from hanse.tasks.problem import Problem

SUM, OTHER = Problem("s", "2 + 7 + 5 =", "14"), Problem("o", "1 + 1 + 1 =", "3")
TEXTS = [
    "2 + 7 = 9 ; 9 + 5 = 14 <answer> 14",
    "5 + 9 = 14 ; 7 + 2 = 9 <answer> 14",
    "2 + 5 = 7 ; 7 + 7 = 14 <answer> 14",
    "7 + 5 = 12 ; 12 + 2 = 14 <answer> 13",
]


def test_a_solution_is_its_true_equalities_in_any_order() -> None:
    assert solution(TEXTS[0]) == solution(TEXTS[1]) != solution(TEXTS[2])
    assert solution("14") == solution("the answer is 14") != solution("15")


def test_nothing_is_read_where_nothing_is_asked() -> None:
    assert process_of(EvaluationSpec()) is None


def test_figures_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    nodes = (Node("(+2 +7)=9", "2 + 7 = 9", 1.0), Node("#12", "12", 0.5))
    save_nodes(path, {}, {"s": Found(2, 2, nodes), "o": Found(0, 2, ())})
    process = process_of(EvaluationSpec(distinct=True, nodes=str(path)))
    assert process is not None
    told = process([SUM] * 4 + [OTHER], [*TEXTS, "x"], [10, 12, 14, 16, 99], [1.0, 1.0, 1.0, 0.0, math.nan])
    # of s: two ways among three right completions; of o: none
    assert told["distinct_solutions"] == 1.0
    assert told["ncr"] == pytest.approx((0.5 + 0.5 + 0.0 + 0.5) / 4)
    assert told["tpn"] == pytest.approx((10 + 12 + 14 + 16) / 4)
