"""One policy of a swarm and everything that it decides: what it writes, what it believes, what it learns.

Nodes that hold the same policy and receive the same deliveries stay bit-identical, so one replica can stand
for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from hanse.grpo.learner import Learner
from hanse.grpo.step import Scoring
from hanse.policy.policy import Policy
from hanse.policy.readings import Readings, read_completions
from hanse.policy.rollout import Group
from hanse.policy.sampler import Sampler, Sampling
from hanse.recipe.model import GrpoSpec
from hanse.recipe.swarm import SwarmSpec
from hanse.swarm.assignment import Assignment
from hanse.swarm.assignment import beacon as beacon_of
from hanse.swarm.booking import book, groups_of
from hanse.swarm.collect import Grid, Written, choices, make_grid, open_bundles, place
from hanse.swarm.commit import digests
from hanse.swarm.defences.base import View
from hanse.swarm.defences.chain import Chain, Inspection
from hanse.swarm.delivery import Bundle, Delivery, Limits, Text, Tokens
from hanse.swarm.draw import assign, drawn
from hanse.swarm.mixing import mixed
from hanse.swarm.scribe import Scribe
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

    @cached_property
    def sender_by_row(self) -> dict[int, int]:
        """The node of every completion that was sent, by its row; the receiver's own extras have none."""
        rows = enumerate(self.written_N)
        return {i: w.delivery.node for i, w in rows if w.delivery is not None}


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
        self._scribe = Scribe(self.sampler, self.problems, tokens=swarm.one_policy)
        self._ids = sorted(self.problems)

    @property
    def digest(self) -> str:
        """Of the policy as it is now."""
        return self.state.digests[0]

    def beacon(self, number: int, committed: Mapping[int, bytes]) -> str:
        """Of a round, once all have committed."""
        held = self.digest if self.swarm.one_policy else None
        return beacon_of(self.state.beacon, digests(number, committed, held))

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
        self._scribe.write(assignment, nodes, self.digest)

    def deliveries(self, assignment: Assignment, node: int) -> list[Delivery]:
        """What an honest node sends, in order of the assignment."""
        return self._scribe.deliveries(assignment, node, self.digest)

    def learn(self, number: int, beacon: str, said: Mapping[int, bytes]) -> Outcome:
        """One round: read what all have sent, decide what to believe, take one step."""
        bundles, refused = open_bundles(said, number, self.limits)
        assignment = self._agreed(beacon, bundles)
        written, strange = self._placed(bundles, assignment)
        slots = self.spec.group_size + self.swarm.rebaseline
        grid = make_grid(written, assignment.problems, slots, self.policy.pad_id)
        problems, ids = [self.problems[w.problem] for w in written], [list(w.ids) for w in written]
        texts = self.policy.decode(ids)
        scores = self.scorer.score(problems, texts, ids)
        rewards = torch.from_numpy(scores.totals_N).double()
        begun = time.perf_counter()
        readings = self._readings(grid, assignment)
        forward = time.perf_counter() - begun
        inspection = self._inspect(number, assignment, written, texts, rewards, grid, readings)
        groups = self._groups(grid, assignment.problems, rewards, inspection.standing_N, readings, written)
        metrics = self.learner.step(groups) if groups else {}
        self._scribe.forget()
        digests = [self.policy.sha256(), *self.state.digests][:_REMEMBERED]
        self.state = ReplicaState(beacon, digests, inspection.memory)
        return Outcome(
            written_N=written,
            problems_N=problems,
            texts_N=texts,
            rewards_N=rewards,
            lengths_N=grid.rows(grid.lengths_PS),
            inspection=inspection,
            refused=refused | strange,
            forward_seconds=forward,
            metrics=metrics,
            errors=scores.errors,
        )

    def _placed(
        self, bundles: Mapping[int, Bundle], assignment: Assignment
    ) -> tuple[list[Written], dict[int, str]]:
        """Completions in their places, the receiver's own as it sampled them and, beside every group, in
        further slots."""
        kind = Tokens if self.swarm.one_policy else Text
        written, strange = place(bundles, assignment, self.policy, self.spec.max_new_tokens, kind)
        written = [self._scribe.original(w) if self._is_own(w) else w for w in written]
        first = self.spec.group_size
        further = range(first, first + self.swarm.rebaseline)
        return written + self._scribe.further(assignment, further, self.digest), strange

    def _is_own(self, written: Written) -> bool:
        return written.delivery is None or written.delivery.node == self.alone

    def _agreed(self, beacon: str, bundles: Mapping[int, Bundle]) -> Assignment:
        """The assignment that the deliveries are held against."""
        if self.swarm.prompts == "assigned":
            return self.assignment(beacon)
        return self.assignment(beacon, choices(bundles, self.problems, self.owned_problems))

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
        foreign = [i for i, w in enumerate(written) if not self._is_own(w)]
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
            eos_ids=self.policy.eos_ids,
            read=lambda: readings.select(cells),
            own_lengths=[
                len(w.ids) for w, r in zip(written, rewards, strict=True) if self._is_own(w) and r > 0
            ],
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
        own = torch.tensor([self._is_own(w) for w in written], dtype=torch.bool)
        booked = book(grid, rewards_N, standing_N, own, readings, self.swarm, self.spec)
        problems = [self.problems[name] for name in names]
        groups = groups_of(booked, grid, rewards_N, readings, problems, self.policy)
        beacon, advantages = self.state.beacon, booked.advantages_PG
        kept = mixed(self.swarm, names, advantages, written, self.alone, self.seed, beacon)
        return groups if kept is None else [groups[i] for i in kept]
