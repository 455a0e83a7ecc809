"""Whether a node's rewarded completions are longer than the others': denial of service by chosen samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from hanse.recipe.swarm import LengthsDefence
from hanse.swarm.defences.base import Finding, View

_Lengths = Mapping[str, Sequence[int]]
_OWN = "own"


def lengths(spec: LengthsDefence, view: View, accepted_N: Tensor) -> Finding:
    """Mann–Whitney test, one-sided, of a node's lengths against those of all others, the receiver's own
    among them: of this round, and of the last `memory` rounds together. Below `p`, all that the node has sent
    this round is rejected: its wrong answers are not the point, but they say nothing of it either. Score: the
    larger z.

    Memory: `rounds`, oldest first, of lengths by node.
    """
    counted = accepted_N & view.rewarded_N
    now: dict[str, list[int]] = {}
    for node, n in zip(view.node_N[counted].tolist(), view.lengths_N[counted].tolist(), strict=True):
        now.setdefault(str(node), []).append(n)
    if view.own_lengths:
        now[_OWN] = list(view.own_lengths)
    rounds = [*view.memory.get("rounds", []), now][-spec.memory :]
    nodes = view.node_N.tolist()
    z = {node: max(_longer([now], str(node)), _longer(rounds, str(node))) for node in set(nodes)}
    score = torch.tensor([z[node] for node in nodes], dtype=torch.float64)
    tail = 0.5 * torch.special.erfc(score / math.sqrt(2))
    return Finding(tail < spec.p, score.float(), {"rounds": rounds})


def _longer(rounds: Sequence[_Lengths], node: str) -> float:
    mine = [n for r in rounds for n in r.get(node, [])]
    others = [n for r in rounds for other, found in r.items() if other != node for n in found]
    return rank_z(mine, others)


def rank_z(mine: Sequence[int], others: Sequence[int]) -> float:
    """z of the Mann–Whitney U of `mine` being larger: normal approximation with the corrections for ties and
    for continuity; 0 where there is nothing to compare."""
    n, m = len(mine), len(others)
    if not n or not m:
        return 0.0
    _, inverse, counts = np.unique([*mine, *others], return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    u = float(ranks[:n].sum()) - n * (n + 1) / 2
    N = n + m
    ties = float((counts.astype(np.float64) ** 3 - counts).sum())
    variance = n * m / 12 * (N + 1 - ties / (N * (N - 1)))
    if variance <= 0:
        return 0.0
    above = u - n * m / 2
    return math.copysign(max(0.0, abs(above) - 0.5), above) / math.sqrt(variance)
