"""A round of honest nodes, for the benchmark of verification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch.nn.functional import pad

from hanse.policy.policy import Policy
from hanse.policy.readings import Readings, read_completions
from hanse.policy.rollout import Group
from hanse.policy.sampler import Sampler, Sampling
from hanse.swarm.assignment import horizontal
from hanse.swarm.defences import View
from hanse.swarm.delivery import Delivery, Tokens
from hanse.tasks.problem import Problem

G, NODES = 12, 4


class Round:
    """What honest nodes sent: completions of `policy`, `rows` of them decoded at once."""

    def __init__(
        self, policy: Policy, P: int, sampling: Sampling, problems: Sequence[Problem], number: int, rows: int
    ) -> None:
        start = number * P % (len(problems) - P + 1)
        self.problems = list(problems[start : start + P])
        self.assigned = horizontal(f"{number}", [p.id for p in self.problems], G, range(NODES))
        self.seeds = [self.assigned.seed(p.id) for p in self.problems]
        self.sampling = replace(sampling, rows=rows)
        self.prompts = [policy.encode(p.prompt) for p in self.problems]
        self.slots = torch.arange(G).expand(P, G)
        self.sample(policy)

    def sample(self, policy: Policy) -> None:
        groups = Sampler(policy, self.sampling).sample(self.problems, G, self.seeds)
        width = max(g.tokens_GT.shape[1] for g in groups)
        self.tokens = torch.stack([pad(g.tokens_GT, (0, width - g.tokens_GT.shape[1])) for g in groups])
        self.lengths = torch.stack([g.lengths_G for g in groups])
        self.stopped = torch.stack([g.terminated_G for g in groups])
        self.sent = [self._delivery(g, slot) for g in groups for slot in range(G)]

    def _delivery(self, group: Group, slot: int) -> Delivery:
        n, name = int(group.lengths_G[slot]), group.problem.id
        finish = "stop" if group.terminated_G[slot] else "length"
        ids = tuple(group.tokens_GT[slot, :n].tolist())
        node = self.assigned.owners[name, slot]
        return Delivery(name, slot, node, self.assigned.seed(name), "now", finish, Tokens(ids))

    def read(self, policy: Policy, edge: float) -> Readings:
        return read_completions(
            policy,
            self.prompts,
            self.tokens,
            self.seeds,
            self.slots,
            self.sampling,
            lengths_PG=self.lengths,
            edge=edge,
        )

    def view(self, policy: Policy, read: Callable[[], Readings]) -> View:
        N = len(self.sent)
        return View(
            round=0,
            deliveries_N=self.sent,
            problems_N=[p for p in self.problems for _ in range(G)],
            texts_N=[""] * N,
            tokens_NT=self.tokens.flatten(0, 1),
            lengths_N=self.lengths.flatten(),
            terminated_N=self.stopped.flatten(),
            rewards_N=torch.ones(N, dtype=torch.float64),
            sampling=self.sampling,
            assignment=self.assigned,
            policies=["now"],
            read=read,
            eos_ids=policy.eos_ids,
        )
