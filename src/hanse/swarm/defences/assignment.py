"""Nobody chooses what it answers, or with which luck."""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor

from hanse.recipe.swarm import AssignmentDefence
from hanse.swarm.defences.base import Finding, View


def assignment(spec: AssignmentDefence, view: View, accepted_N: Tensor) -> Finding:
    """A node's own slots, each once, with the seed that the beacon gives; `complete`: all of them, else the
    node could hold back what does not suit it, or send what is sure to be rejected in its place: at the end
    of a chain this also counts what the others have rejected. Score: 2 for what an honest node never sends, 1
    for a delivery of a node that owes more."""
    sent = Counter((d.node, d.problem, d.slot) for d in view.deliveries_N)
    strange = [
        view.assignment.owners.get((d.problem, d.slot)) != d.node
        or d.seed != view.assignment.seed(d.problem)
        or sent[d.node, d.problem, d.slot] > 1
        for d in view.deliveries_N
    ]
    nodes = {d.node for d in view.deliveries_N}
    owes = {node: _owed(view, node, accepted_N) > spec.missing for node in nodes}
    missing = [spec.complete and owes[d.node] for d in view.deliveries_N]
    score = torch.tensor([2.0 * a if a else 1.0 * b for a, b in zip(strange, missing, strict=True)])
    return Finding(score > 0, score)


def _owed(view: View, node: int, accepted_N: Tensor) -> float:
    """The share of its slots for which nothing has come that is still believed."""
    pairs = zip(view.deliveries_N, accepted_N.tolist(), strict=True)
    good = {(d.problem, d.slot) for d, accepted in pairs if accepted and d.node == node}
    due = {(p, slot) for p, slots in view.assignment.of(node).items() for slot in slots}
    return len(due - good) / max(1, len(due))
