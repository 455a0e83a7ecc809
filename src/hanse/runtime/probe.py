"""What an update is worth on the server's own problems: rewards of completions of a policy that has it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hanse.federation.auditor import Auditor
from hanse.grpo.step import score_groups
from hanse.policy.sampler import Sampler
from hanse.randomness import derive_seed
from hanse.recipe.model import Recipe
from hanse.runtime.host import Host
from hanse.tasks.problem import Problem


class Probe:
    """Rewards of `samples` completions of each of `problems`, in the process of `host`.

    Within a round all policies draw the same random numbers, so that differences are those of the policies.
    """

    def __init__(self, host: Host, problems: Sequence[Problem], samples: int, seed: int) -> None:
        self.host, self.problems, self.samples, self.seed = host, problems, samples, seed

    def __call__(self, round: int, values: Tensor) -> Tensor:
        """The mean reward of each problem, NaN where nothing was scored; float64, shape (N,)."""
        host = self.host
        host.policy.load(values.float())
        sampler = Sampler(host.policy, host.sampling)
        seeds = [derive_seed(self.seed, "probe", round, problem.id) for problem in self.problems]
        groups = sampler.sample(self.problems, self.samples, seeds)
        score_groups(groups, sampler, host.scorer)
        rewards = [group.rewards_G for group in groups if group.rewards_G is not None]
        return torch.stack(rewards).double().nanmean(1)


def auditor_of(recipe: Recipe, host: Host) -> Auditor | None:
    """The server's auditor, where the recipe asks for audits."""
    spec = recipe.federation_in_force.audit
    if not spec.on:
        return None
    return Auditor(spec, Probe(host, host.owned, spec.samples, recipe.seed))
