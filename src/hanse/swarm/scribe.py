"""What a replica writes: the completions that its nodes owe, each from its slot's own stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hanse.policy.rollout import Group, Rollout
from hanse.policy.sampler import Sampler
from hanse.swarm.assignment import Assignment
from hanse.swarm.collect import Written
from hanse.swarm.delivery import Delivery, Text, Tokens
from hanse.tasks.problem import Problem


class Scribe:
    """Samples, and remembers until the round is over. `tokens`: those travel, or else text."""

    def __init__(self, sampler: Sampler, problems: Mapping[str, Problem], *, tokens: bool) -> None:
        self.sampler, self.problems, self.tokens = sampler, problems, tokens
        self._written: dict[tuple[str, int], Written] = {}

    def write(self, assignment: Assignment, nodes: Sequence[int], digest: str) -> None:
        """Sample what these nodes owe, in one go."""
        slots: dict[str, list[int]] = {}
        for node in nodes:
            for problem, owed in assignment.of(node).items():
                slots.setdefault(problem, []).extend(owed)
        self.sample(assignment, slots, digest)

    def sample(self, assignment: Assignment, slots: Mapping[str, Sequence[int]], digest: str) -> None:
        """What is not written yet of these slots."""
        alike: dict[tuple[int, ...], list[str]] = {}
        for problem, owed in slots.items():
            missing = tuple(s for s in sorted(owed) if (problem, s) not in self._written)
            if missing:
                alike.setdefault(missing, []).append(problem)
        for owed, names in alike.items():
            chosen = [self.problems[name] for name in names]
            seeds = [assignment.seed(name) for name in names]
            for group in self.sampler.sample(chosen, len(owed), seeds, owed):
                self._keep(group, owed, assignment, digest)

    def _keep(self, group: Group, slots: Sequence[int], assignment: Assignment, digest: str) -> None:
        name = group.problem.id
        for slot, rollout in zip(slots, group, strict=True):
            owner = assignment.owners.get((name, slot))
            delivery = None
            if owner is not None:
                seed, said = assignment.seed(name), self._said(rollout)
                delivery = Delivery(name, slot, owner, seed, digest, rollout.finish, said)
            stopped = rollout.finish == "stop"
            self._written[name, slot] = Written(name, slot, rollout.token_ids, stopped, delivery)

    def _said(self, rollout: Rollout) -> Tokens | Text:
        if self.tokens:
            return Tokens(rollout.token_ids, rollout.logp_T.float().cpu().numpy())
        return Text(self.sampler.policy.decode([rollout.token_ids])[0])

    def deliveries(self, assignment: Assignment, node: int, digest: str) -> list[Delivery]:
        """What an honest node sends, in order of the assignment."""
        self.write(assignment, [node], digest)
        keys = [(name, slot) for name, slots in assignment.of(node).items() for slot in slots]
        found = [self._written[key].delivery for key in keys]
        return [delivery for delivery in found if delivery is not None]

    def original(self, written: Written) -> Written:
        """A completion of one's own as it was sampled: its text may have other tokens."""
        return self._written.get((written.problem, written.slot), written)

    def further(self, assignment: Assignment, slots: range, digest: str) -> list[Written]:
        """Completions of every problem in slots that nobody else has."""
        self.sample(assignment, dict.fromkeys(assignment.problems, slots), digest)
        return [self._written[name, slot] for name in assignment.problems for slot in slots]

    def forget(self) -> None:
        """The round is over."""
        self._written.clear()
