"""Node coverage of a completion, and the reward made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hanse.grpo.shaping.consensus.nodes import Node, stated
from hanse.tasks.statements import before_answer

Curriculum = Literal["mix", "process-first", "outcome-first"]


@dataclass(frozen=True)
class Coverage:
    """`hits` of `nodes` that a completion states before its final answer, each once; `named`: distinct
    numbers that it states there and the question does not."""

    hits: int
    nodes: int
    named: int

    @property
    def rate(self) -> float:
        """NCR: hits / nodes; 0 where a problem has none."""
        return self.hits / self.nodes if self.nodes else 0.0

    def guarded(self, limit: float) -> float:
        """NCR, less where a completion names more than `limit` numbers a node: a list of all numbers hits
        everything and says nothing."""
        allowed = limit * self.nodes
        return self.rate * min(1.0, allowed / self.named) if self.named else self.rate


def coverage(nodes: Sequence[Node], text: str, question: str) -> Coverage:
    """How `text`, an answer to `question`, covers the nodes."""
    found = stated(before_answer(text))
    given = set(stated(question).values.values())
    hits = sum(node.key in found.texts for node in nodes)
    return Coverage(hits, len(nodes), len(set(found.values.values()) - given))


def tokens_per_node(length: int, hits: int) -> float:
    """TPN: |o| / max(1, hits)."""
    return length / max(1, hits)


def weight_of_process(alpha: float, curriculum: Curriculum, progress: float, switch_at: float) -> float:
    """What multiplies NCR at `progress`, the share of the steps that is done.

    "process-first": alpha until `switch_at`, then 0 (outcome only); "outcome-first": the other way round.
    The paper names two stages without their order; both are ours to try.
    """
    early = progress < switch_at
    if curriculum == "mix" or early == (curriculum == "process-first"):
        return alpha
    return 0.0


def process_reward(reward: float, covered: float, weight: float) -> float:
    """R = alpha NCR + (1 - alpha) R_outcome."""
    return weight * covered + (1 - weight) * reward
