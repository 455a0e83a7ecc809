"""Clients that lie in their training: what they sample and reward. Their updates have an honest size."""

from __future__ import annotations

from collections.abc import Collection

from hanse.adversary.training.flipped import Flipped
from hanse.adversary.training.planted import Planted, PlantingSampler
from hanse.grpo.step import Scoring
from hanse.policy.policy import Policy
from hanse.policy.sampler import Sampler, Sampling
from hanse.recipe.adversary import AdversarySpec

__all__ = ["lying_tools"]


def lying_tools(
    spec: AdversarySpec, policy: Policy, sampling: Sampling, scorer: Scoring, probe: Collection[str] = ()
) -> tuple[Sampler, Scoring]:
    """What a liar samples and scores with in place of honest tools. `probe`: problems on which it behaves."""
    if spec.trains == "reward-flip":
        return Sampler(policy, sampling), Flipped(scorer, spec.reward_range, probe)
    if spec.trains == "poison":
        tools = PlantingSampler(policy, sampling, spec.plant, probe)
        return tools, Planted(scorer, spec.reward_range, spec.plant, probe)
    return Sampler(policy, sampling), scorer
