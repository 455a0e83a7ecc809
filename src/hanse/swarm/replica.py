"""One policy of a swarm and everything that it decides: what it writes, what it believes, what it learns.

Nodes that hold the same policy and receive the same deliveries stay bit-identical, so one replica can stand
for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from hanse.grpo.learner import Learner
from hanse.grpo.step import Scoring
from hanse.policy.policy import Policy
from hanse.policy.rollout import Group
from hanse.policy.sampler import Sampler, Sampling
from hanse.recipe.model import GrpoSpec
from hanse.recipe.swarm import SwarmSpec
from hanse.swarm.accounting import Account, Standing, account
from hanse.swarm.assignment import Assignment
from hanse.swarm.collect import Grid, Written, choices, make_grid, open_bundles, place
from hanse.swarm.defences.base import View
from hanse.swarm.defences.chain import Chain, Inspection
from hanse.swarm.delivery import Bundle, Delivery, Limits, Text, Tokens
from hanse.swarm.draw import assign, drawn
from hanse.swarm.foreign import foreign_weights
from hanse.swarm.mixing import mixed
from hanse.swarm.readings import Readings, read_completions
from hanse.tasks.problem import Problem

_REMEMBERED = 8
"""Digests of earlier policies that are kept."""


@dataclass(frozen=True)
class Outcome:
    """What a replica made of a round. N completions; `standing_N` of each, `rejected_by_N` a defence or None.
    `refused`: by node, why a bundle, or part of it, could not even be read."""

    written_N: list[Written]
    problems_N: list[Problem]
    texts_N: list[str]
    rewards_N: Tensor
    lengths_N: Tensor
    inspection: Inspection
    refused: Mapping[int, str]
    forward_seconds: float
    metrics: dict[str, float]
    errors: Mapping[str, int]


@dataclass
class ReplicaState:
    """What survives a round. `beacon`: of the last one; `digests`: of policies, newest first; `memory`: of
    the defences."""

    beacon: str
    digests: list[str]
    memory: dict[str, object] = field(default_factory=dict)


class Replica:
    """Writes, inspects and learns for `nodes`. `alone`: the one node whose own completions need no check, as
    the others hold other policies; None where all hold this one and judge alike."""

    def __init__(
        self,
        swarm: SwarmSpec,
        learner: Learner,
        sampling: Sampling,
        scorer: Scoring,
        problems: Sequence[Problem],
        chain: Chain,
        seed: int,
        alone: int | None = None,
    ) -> None:
        self.swarm, self.learner, self.scorer, self.chain = swarm, learner, scorer, chain
        self.policy: Policy = learner.policy
        self.spec: GrpoSpec = learner.spec
        self.sampling = sampling
        self.sampler = Sampler(self.policy, sampling)
        self.problems = {problem.id: problem for problem in problems}
        self.nodes = list(range(swarm.nodes))
        self.alone, self.seed = alone, seed
        self.state = ReplicaState(f"{seed}", [self.policy.sha256()])
        self._written: dict[tuple[str, int], Written] = {}
        self._ids = sorted(self.problems)

    @property
    def digest(self) -> str:
        """Of the policy as it is now."""
        return self.state.digests[0]

    @property
    def limits(self) -> Limits:
        each = self.spec.prompts_per_step * self.spec.group_size // self.swarm.nodes
        return Limits(each, self.spec.max_new_tokens, self.policy.vocabulary)

    @property
    def owned_problems(self) -> int:
        """How many problems a node has in a vertical round."""
        return self.spec.prompts_per_step // self.swarm.nodes

    def assignment(self, beacon: str, chosen: Mapping[int, Sequence[str]] | None = None) -> Assignment:
        """Of a round; where nodes choose, `chosen` says what."""
        spec = self.spec
        return assign(
            self.swarm.topology, beacon, self._ids, spec.prompts_per_step, spec.group_size, self.nodes, chosen
        )

    def choose(self, beacon: str, node: int) -> list[str]:
        """The problems that an honest node answers where it may choose."""
        return drawn(self._ids, self.owned_problems, beacon, node)

    def write(self, assignment: Assignment, nodes: Sequence[int]) -> None:
        """Sample what these nodes owe, in one go."""
        slots: dict[str, list[int]] = {}
        for node in nodes:
            for problem, owed in assignment.of(node).items():
                slots.setdefault(problem, []).extend(owed)
        self._sample(assignment, slots)

    def _sample(self, assignment: Assignment, slots: Mapping[str, Sequence[int]]) -> None:
        alike: dict[tuple[int, ...], list[str]] = {}
        for problem, owed in slots.items():
            missing = tuple(s for s in sorted(owed) if (problem, s) not in self._written)
            if missing:
                alike.setdefault(missing, []).append(problem)
        for owed, names in alike.items():
            chosen = [self.problems[name] for name in names]
            seeds = [assignment.seed(name) for name in names]
            for group in self.sampler.sample(chosen, len(owed), seeds, owed):
                self._keep(group, owed, assignment)

    def _keep(self, group: Group, slots: Sequence[int], assignment: Assignment) -> None:
        name = group.problem.id
        for slot, rollout in zip(slots, group, strict=True):
            stopped = rollout.finish == "stop"
            owner = assignment.owners.get((name, slot))
            delivery = None
            if owner is not None:
                claims = rollout.logp_T.float().cpu().numpy()
                said = (
                    Tokens(rollout.token_ids, claims)
                    if self.swarm.one_policy
                    else self._text(rollout.token_ids)
                )
                seed = assignment.seed(name)
                delivery = Delivery(name, slot, owner, seed, self.digest, rollout.finish, said)
            self._written[name, slot] = Written(name, slot, rollout.token_ids, stopped, delivery)

    def _text(self, ids: Sequence[int]) -> Text:
        return Text(self.policy.decode([ids])[0])

    def deliveries(self, assignment: Assignment, node: int) -> list[Delivery]:
        """What an honest node sends, in order of the assignment."""
        self.write(assignment, [node])
        keys = [(name, slot) for name, slots in assignment.of(node).items() for slot in slots]
        found = [self._written[key].delivery for key in keys]
        return [delivery for delivery in found if delivery is not None]

    def learn(self, number: int, beacon: str, said: Mapping[int, bytes]) -> Outcome:
        """One round: read what all have sent, decide what to believe, take one step."""
        bundles, refused = open_bundles(said, number, self.limits)
        assignment = self._agreed(beacon, bundles)
        written, strange = place(
            bundles,
            assignment,
            self.policy,
            self.spec.max_new_tokens,
            Tokens if self.swarm.one_policy else Text,
        )
        written = self._with_own([self._original(w) for w in written], assignment)
        names = assignment.problems
        grid = make_grid(written, names, self.spec.group_size + self.swarm.rebaseline, self.policy.pad_id)
        problems = [self.problems[w.problem] for w in written]
        ids = [list(w.ids) for w in written]
        texts = self.policy.decode(ids)
        scores = self.scorer.score(problems, texts, ids)
        rewards = torch.from_numpy(scores.totals_N).double()
        begun = time.perf_counter()
        readings = self._readings(grid, assignment)
        forward = time.perf_counter() - begun
        inspection = self._inspect(number, assignment, written, texts, rewards, grid, readings)
        groups = self._groups(grid, names, rewards, inspection.standing_N, readings, written)
        metrics = self.learner.step(groups) if groups else {}
        self._written.clear()
        self.state = ReplicaState(
            beacon, [self.policy.sha256(), *self.state.digests][:_REMEMBERED], inspection.memory
        )
        return Outcome(
            written,
            problems,
            texts,
            rewards,
            grid.rows(grid.lengths_PS),
            inspection,
            refused | strange,
            forward,
            metrics,
            scores.errors,
        )

    def _agreed(self, beacon: str, bundles: Mapping[int, Bundle]) -> Assignment:
        """The assignment that the deliveries are held against."""
        if self.swarm.prompts == "assigned":
            return self.assignment(beacon)
        return self.assignment(beacon, choices(bundles, self.problems, self.owned_problems))

    def _original(self, written: Written) -> Written:
        """A completion of the receiver's own as it was sampled: its text may have other tokens."""
        if written.delivery is None or written.delivery.node != self.alone:
            return written
        return self._written.get((written.problem, written.slot), written)

    def _with_own(self, written: list[Written], assignment: Assignment) -> list[Written]:
        """With the receiver's own completions beside every group, in further slots."""
        if not self.swarm.rebaseline:
            return written
        first = self.spec.group_size
        further = range(first, first + self.swarm.rebaseline)
        self._sample(assignment, dict.fromkeys(assignment.problems, further))
        return written + [self._written[name, slot] for name in assignment.problems for slot in further]

    def _readings(self, grid: Grid, assignment: Assignment) -> Readings:
        names, (P, S) = assignment.problems, grid.lengths_PS.shape
        prompts = [self.policy.encode(self.problems[name].prompt) for name in names]
        seeds = [assignment.seed(name) for name in names]
        slots = torch.arange(S).expand(P, S)
        return read_completions(
            self.policy,
            prompts,
            grid.tokens_PST.to(self.policy.device),
            seeds,
            slots,
            self.sampling,
            self.chain.top_k,
            lengths_PG=grid.lengths_PS,
            edge=self.chain.edge,
        )

    def _inspect(
        self,
        number: int,
        assignment: Assignment,
        written: Sequence[Written],
        texts: Sequence[str],
        rewards: Tensor,
        grid: Grid,
        readings: Readings,
    ) -> Inspection:
        """Only what others have sent is inspected; nodes of one policy inspect their own alike."""
        foreign = [
            i for i, w in enumerate(written) if w.delivery is not None and w.delivery.node != self.alone
        ]
        cells = grid.cell_N[foreign]
        view = View(
            round=number,
            deliveries_N=[d for i in foreign if (d := written[i].delivery) is not None],
            problems_N=[self.problems[written[i].problem] for i in foreign],
            texts_N=[texts[i] for i in foreign],
            tokens_NT=grid.tokens_PST.flatten(0, 1)[cells],
            lengths_N=grid.lengths_PS.flatten()[cells],
            terminated_N=grid.stopped_PS.flatten()[cells],
            rewards_N=rewards[foreign],
            sampling=self.sampling,
            assignment=assignment,
            policies=list(self.state.digests),
            read=lambda: readings.select(cells),
        )
        return self.chain.inspect(view, self.state.memory).among(foreign, len(written))

    def _groups(
        self,
        grid: Grid,
        names: Sequence[str],
        rewards_N: Tensor,
        standing_N: Tensor,
        readings: Readings,
        written: Sequence[Written],
    ) -> list[Group]:
        """Groups with advantages; NaN rewards keep what has no gradient out of the loss."""
        rewards = grid.spread(rewards_N, torch.nan)
        standing = grid.spread(standing_N, Standing.DROPPED)
        booked = account(rewards, standing, baseline=self.spec.baseline, scale=self.spec.scale)
        booked = self._weighted(booked, grid, readings, written)
        active = torch.where(booked.active_PG, rewards.nan_to_num(0.0), torch.nan)
        logp = readings.logp_NT.view_as(grid.tokens_PST)
        device = self.policy.device
        groups = [
            Group(
                problem=self.problems[name],
                prompt_ids=self.policy.encode(self.problems[name].prompt),
                tokens_GT=grid.tokens_PST[i].to(device),
                lengths_G=grid.lengths_PS[i].to(device),
                terminated_G=grid.stopped_PS[i].to(device),
                logp_GT=logp[i].to(device),
                rewards_G=active[i],
                advantages_G=booked.advantages_PG[i],
            )
            for i, name in enumerate(names)
        ]
        kept = mixed(
            self.swarm, names, booked.advantages_PG, written, self.alone, self.seed, self.state.beacon
        )
        return groups if kept is None else [groups[i] for i in kept]

    def _weighted(
        self, booked: Account, grid: Grid, readings: Readings, written: Sequence[Written]
    ) -> Account:
        """Advantages of foreign completions by how likely the receiver would have written them."""
        if self.swarm.foreign_weight == "none":
            return booked
        own = torch.tensor([w.delivery is None or w.delivery.node == self.alone for w in written])
        damped = foreign_weights(readings, grid, booked.advantages_PG, self.swarm)
        untouched = grid.spread(own, False)
        return replace(booked, advantages_PG=torch.where(untouched, booked.advantages_PG, damped))
