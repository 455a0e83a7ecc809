"""Figures about the way to an answer: distinct solutions, node coverage, tokens per node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hanse.grpo.evaluation import Process
from hanse.grpo.shaping.consensus.coverage import coverage, tokens_per_node
from hanse.grpo.shaping.consensus.nodes import question_of, stated
from hanse.grpo.shaping.consensus.store import Found, load_nodes
from hanse.recipe.model import EvaluationSpec
from hanse.tasks.problem import Problem
from hanse.tasks.statements import equalities


def process_of(spec: EvaluationSpec) -> Process | None:
    """What `evaluation` asks for, if anything. Raises RecipeError for a node file that is none."""
    if not spec.distinct and spec.nodes is None:
        return None
    nodes = {} if spec.nodes is None else load_nodes(spec.nodes, "evaluation.nodes")

    def figures(
        problems: Sequence[Problem], texts: Sequence[str], lengths: Sequence[int], marks: Sequence[float]
    ) -> Mapping[str, float]:
        found = _coverage(problems, texts, lengths, nodes)
        return found | (_distinct(problems, texts, marks) if spec.distinct else {})

    return figures


def _coverage(
    problems: Sequence[Problem], texts: Sequence[str], lengths: Sequence[int], nodes: Mapping[str, Found]
) -> dict[str, float]:
    """NCR and TPN over the completions of problems that have nodes; nothing without any."""
    rates, costs = list[float](), list[float]()
    for problem, text, length in zip(problems, texts, lengths, strict=True):
        if problem.id in nodes and nodes[problem.id].nodes:
            covered = coverage(nodes[problem.id].nodes, text, question_of(problem))
            rates.append(covered.rate)
            costs.append(tokens_per_node(length, covered.hits))
    return {"ncr": sum(rates) / len(rates), "tpn": sum(costs) / len(costs)} if rates else {}


def solution(text: str) -> frozenset[str]:
    """What a right completion comes to: its true equalities, in any order; without any, what it states."""
    keys = frozenset(one.key for one in equalities(text) if one.key is not None)
    return keys or frozenset(stated(text).texts)


def _distinct(problems: Sequence[Problem], texts: Sequence[str], marks: Sequence[float]) -> dict[str, float]:
    """Mean over problems of the number of distinct solutions among their right completions."""
    ways: dict[str, set[frozenset[str]]] = {problem.id: set() for problem in problems}
    for problem, text, mark in zip(problems, texts, marks, strict=True):
        if mark >= 1:
            ways[problem.id].add(solution(text))
    return {"distinct_solutions": sum(map(len, ways.values())) / max(1, len(ways))}
