"""Log-probs that a sender claims: no proof of anything, but a false one is told apart."""

from __future__ import annotations

import torch
from torch import Tensor

from hanse.recipe.swarm import ClaimsDefence
from hanse.swarm.defences.base import Finding, View
from hanse.swarm.delivery import Tokens


def claims(spec: ClaimsDefence, view: View, accepted_N: Tensor) -> Finding:
    """Score: mean |claimed - own log-prob| a token. Who claims nothing is rejected (score: inf)."""
    claimed = torch.full(view.tokens_NT.shape, torch.inf)
    for row, d in zip(claimed, view.deliveries_N, strict=True):
        if isinstance(d.completion, Tokens) and d.completion.logp is not None:
            row[: len(d.completion.logp)] = torch.from_numpy(d.completion.logp.copy())
    off = view.real((claimed - view.readings.logp_NT).abs()).sum(1)
    score = off / view.lengths_N.clamp(min=1)
    return Finding(~(score <= spec.tolerance), score)
