"""Whether a completion is as surprising as samples of the policy are."""

from __future__ import annotations

import torch
from torch import Tensor

from hanse.recipe.swarm import TypicalityDefence
from hanse.swarm.defences.base import Finding, View


def typicality(spec: TypicalityDefence, view: View, accepted_N: Tensor) -> Finding:
    """z = sum(-log p - H) / sqrt(1 + sum Var), of the whole and of each window; larger than the limit is too
    surprising. The 1 (nat²): where a policy is nearly certain the variance is almost 0, and a rare honest
    token would be any number of deviations away. Score: the larger of the two z over their limits.
    """
    r = view.readings
    surprise = view.real(-r.logp_NT - r.entropy_NT)
    variance = view.real(r.variance_NT)
    whole = _z(surprise.sum(1), variance.sum(1)) / spec.z
    width = min(spec.window, surprise.shape[1])
    parts = _z(surprise.unfold(1, width, 1).sum(-1), variance.unfold(1, width, 1).sum(-1))
    score = torch.maximum(whole, parts.amax(1) / spec.window_z)
    return Finding(score > 1, score)


def _z(surprise: Tensor, variance: Tensor) -> Tensor:
    return surprise / (1 + variance).sqrt()
