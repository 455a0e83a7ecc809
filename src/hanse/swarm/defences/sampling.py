"""Checks token by token: could the sampler have drawn it? (2511.09780, and min-p)"""

from __future__ import annotations

import math

from torch import Tensor

from hanse.recipe.swarm import MinPDefence, TopKDefence
from hanse.swarm.defences.base import Finding, View

_WORST = 1e4


def top_k(spec: TopKDefence, view: View, accepted_N: Tensor) -> Finding:
    """Every token of a completion, its end token and its last place included. Score: how far below the k-th
    logit the worst token is that `violations` do not excuse."""
    score = _unexcused(view, -view.readings.margin_NT, spec.violations)
    return Finding(score > spec.tolerance, score)


def min_p(spec: MinPDefence, view: View, accepted_N: Tensor) -> Finding:
    """Score: log-prob of the likeliest token minus that of the token, at the worst that is not excused."""
    score = _unexcused(view, -view.readings.gap_NT, spec.violations)
    return Finding(score > -math.log(spec.min_p), score)


def _unexcused(view: View, excess_NT: Tensor, violations: int) -> Tensor:
    """The largest excess but for so many. Shape (N,)."""
    excess = view.real(excess_NT.clamp(-_WORST, _WORST), -_WORST)
    T = excess.shape[1]
    if violations >= T:
        return excess.new_full((view.size,), -_WORST)
    return excess.topk(violations + 1, dim=1).values[:, -1]
