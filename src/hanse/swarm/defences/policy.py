"""Whose policy a completion says it was made with."""

from __future__ import annotations

import torch
from torch import Tensor

from hanse.recipe.swarm import PolicyDefence
from hanse.swarm.defences.base import Finding, View


def policy(spec: PolicyDefence, view: View, accepted_N: Tensor) -> Finding:
    """A claim only: it sorts out honest nodes that have fallen behind. Score: rounds of staleness; for a
    digest that nobody knows, one more than there are digests."""
    age = {digest: i for i, digest in reversed(list(enumerate(view.policies)))}
    stale = [age.get(d.policy, len(view.policies) + 1) for d in view.deliveries_N]
    score = torch.tensor(stale, dtype=torch.float32)
    return Finding(score > spec.staleness, score)
