"""Whether a completion ended where the policy would have ended it (2505.07291; GRAIL asks for 0.02)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hanse.recipe.swarm import TerminationDefence
from hanse.swarm.defences.base import Finding, View


def termination(spec: TerminationDefence, view: View, accepted_N: Tensor) -> Finding:
    """Score: -log p of the end token; 0 for completions that were cut. Honest samples end with probability p
    where p is small, so a policy that often hesitates is rejected often: not in the default chain."""
    last = (view.lengths_N - 1).clamp(min=0).unsqueeze(1)
    surprise = -view.readings.logp_NT.gather(1, last).squeeze(1)
    score = torch.where(view.terminated_N, surprise, 0.0)
    limit = -math.log(spec.min_probability) if spec.min_probability > 0 else math.inf
    return Finding(score > limit, score)
