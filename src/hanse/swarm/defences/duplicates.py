"""Copies: what one node sends twice for the same problem."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from hanse.recipe.swarm import DuplicatesDefence
from hanse.swarm.defences.base import Finding, View

_GRAM = 4
_Gram = tuple[int, ...]


def duplicates(spec: DuplicatesDefence, view: View, accepted_N: Tensor) -> Finding:
    """Per node and group, the first `most` of what is alike, in order of slots.

    Honest samples of short answers often are the same, so copies are only rejected where chance does not
    explain them. With n completions, of which m are alike, the chance that any m of n agree so, given the
    first of them, is at most C(n, m) * prod of the other m - 1's probabilities under the receiver's policy;
    of a near copy only the tokens count that it shares. It must be below `p`, so that at most that share of
    honest groups is touched, where the senders' policy is the receiver's. Score: -log of that chance.
    """
    score = torch.zeros(view.size)
    for rows in _by_node_and_group(view, accepted_N):
        for alike in _clusters(view, rows, spec.similarity):
            if len(alike) > spec.most:
                surprise = -_log_chance(view, alike, len(rows))
                score[alike[spec.most :]] = max(0.0, surprise)
    return Finding(score > -math.log(spec.p), score)


def _by_node_and_group(view: View, accepted_N: Tensor) -> list[list[int]]:
    found: dict[tuple[int, int], list[int]] = {}
    for i in accepted_N.nonzero().squeeze(1).tolist():
        found.setdefault((int(view.node_N[i]), int(view.group_N[i])), []).append(i)
    return [sorted(rows, key=lambda i: view.deliveries_N[i].slot) for rows in found.values() if len(rows) > 1]


def _clusters(view: View, rows: Sequence[int], similarity: float | None) -> list[list[int]]:
    """Rows that are alike to the first of their cluster."""
    clusters: list[list[int]] = []
    for i in rows:
        for cluster in clusters:
            if _alike(_ids(view, i), _ids(view, cluster[0]), similarity):
                cluster.append(i)
                break
        else:
            clusters.append([i])
    return clusters


def _ids(view: View, row: int) -> list[int]:
    ids: list[int] = view.tokens_NT[row, : int(view.lengths_N[row])].tolist()
    return ids


def _grams(ids: Sequence[int]) -> list[_Gram]:
    """All runs of four tokens; what is shorter is one of its own."""
    return [tuple(ids[i : i + _GRAM]) for i in range(max(1, len(ids) - _GRAM + 1))]


def _alike(a: Sequence[int], b: Sequence[int], similarity: float | None) -> bool:
    if similarity is None or a == b:
        return a == b
    x, y = set(_grams(a)), set(_grams(b))
    return len(x & y) >= similarity * len(x | y)


def _log_chance(view: View, alike: Sequence[int], n: int) -> float:
    first = set(_grams(_ids(view, alike[0])))
    shared = sum(_shared_logp(view, i, first) for i in alike[1:])
    return math.log(math.comb(n, len(alike))) + shared


def _shared_logp(view: View, row: int, first: set[_Gram]) -> float:
    """Log-prob, as sampled, of the tokens of a completion that the first one has too."""
    ids = _ids(view, row)
    shared = torch.zeros(len(ids), dtype=torch.bool)
    for i, gram in enumerate(_grams(ids)):
        if gram in first:
            shared[i : i + _GRAM] = True
    r = view.readings
    return float((r.logp_NT[row] - r.kept_NT[row])[: len(ids)][shared].double().sum())
