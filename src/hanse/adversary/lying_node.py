"""A node that holds the honest policy and sends something else."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence

import numpy as np

from hanse.adversary.completions import COMPLETION_ATTACKS
from hanse.adversary.completions.base import Turn
from hanse.grpo.step import score_groups
from hanse.policy.rollout import Group
from hanse.randomness import derive_seed
from hanse.recipe.adversary import CompletionAttackSpec
from hanse.swarm.assignment import Assignment
from hanse.swarm.collect import open_bundles
from hanse.swarm.delivery import Bundle, Delivery
from hanse.swarm.node import Node
from hanse.swarm.replica import Replica
from hanse.tasks.problem import Problem


class LyingNode(Node):
    """One of `members` that collude. Its policy learns as the others' do."""

    lies = True

    def __init__(self, id: int, replica: Replica, spec: CompletionAttackSpec, members: Sequence[int]) -> None:
        super().__init__(id, replica)
        self.spec, self.members, self._attack = spec, tuple(members), COMPLETION_ATTACKS[spec.type]
        self._said: dict[int, bytes] = {}

    def hear(self, said: Mapping[int, bytes]) -> None:
        self._said = dict(said)

    @property
    def memory(self) -> dict[str, str]:
        """What it keeps from round to round, for a checkpoint."""
        return {str(node): b64encode(data).decode() for node, data in self._said.items()}

    @memory.setter
    def memory(self, kept: Mapping[str, str]) -> None:
        self._said = {int(node): b64decode(data) for node, data in kept.items()}

    @property
    def _heard(self) -> list[Delivery]:
        bundles, _ = open_bundles(self._said, None, self.replica.limits)
        return [delivery for bundle in bundles.values() for delivery in bundle.deliveries]

    def assignment(self, beacon: str) -> Assignment:
        replica, choose = self.replica, self._attack.choose
        if replica.swarm.prompts == "assigned" or choose is None:
            return super().assignment(beacon)
        pool = [replica.problems[name] for name in sorted(replica.problems)]
        chosen = choose(self.spec, pool, replica.owned_problems, derive_seed("choose", beacon, self.id))
        return replica.assignment(beacon, {self.id: [problem.id for problem in chosen]})

    def deliver(self, round: int, beacon: str) -> bytes:
        assignment, replica = self.assignment(beacon), self.replica
        slots = assignment.of(self.id)
        turn = Turn(
            round=round,
            node=self.id,
            members=self.members,
            problems={name: replica.problems[name] for name in slots},
            slots=slots,
            honest=lambda: replica.deliveries(assignment, self.id),
            seed=derive_seed("lie", replica.seed, round),
            policy=replica.policy,
            sample=self._sample,
            score=self._score,
            max_new_tokens=replica.spec.max_new_tokens,
            group_size=replica.spec.group_size,
            temperature=replica.spec.temperature,
            top_k=replica.spec.top_k,
            heard=self._heard,
        )
        said = self._attack.craft(self.spec, turn)
        return said if isinstance(said, bytes) else Bundle(round, self.id, tuple(said)).to_bytes()

    def _sample(self, problems: Sequence[Problem], count: int, seeds: Sequence[int]) -> list[Group]:
        groups = self.replica.sampler.sample(problems, count, seeds)
        if groups:
            score_groups(groups, self.replica.sampler, self.replica.scorer)
        return groups

    def _score(
        self, problems: Sequence[Problem], texts: Sequence[str]
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return self.replica.scorer.score(problems, texts).totals_N
