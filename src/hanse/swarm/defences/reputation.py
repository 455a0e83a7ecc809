"""What a node's past says of it."""

from __future__ import annotations

import torch
from torch import Tensor

from hanse.recipe.swarm import ReputationDefence
from hanse.swarm.defences.base import Finding, View


def reputation(spec: ReputationDefence, view: View, accepted_N: Tensor) -> Finding:
    """(a + accepted) / (a + b + all) over all rounds, this one included; below the limit a node is out, and
    stays out. Belongs at the end of a chain: it counts what the others have left. Score: 1 - that share.

    Memory: `counts` by node, [accepted, rejected]; `evicted` nodes, whose counts no longer change.
    """
    counts = {int(k): list(v) for k, v in view.memory.get("counts", {}).items()}
    evicted = set(view.memory.get("evicted", []))
    a, b = spec.prior
    for node in sorted(set(view.node_N.tolist()) - evicted):
        of_node = accepted_N[view.node_N == node]
        good, bad = counts.get(node, [0, 0])
        counts[node] = [good + int(of_node.sum()), bad + int((~of_node).sum())]
        if (a + counts[node][0]) / (a + b + sum(counts[node])) < spec.evict_below:
            evicted.add(node)
    share = {node: (a + good) / (a + b + good + bad) for node, (good, bad) in counts.items()}
    nodes = view.node_N.tolist()
    score = torch.tensor([1 - share[node] for node in nodes], dtype=torch.float32)
    rejected = torch.tensor([node in evicted for node in nodes], dtype=torch.bool)
    memory = {"counts": {str(k): v for k, v in sorted(counts.items())}, "evicted": sorted(evicted)}
    return Finding(rejected, score, memory, {"evicted": float(len(evicted))})
