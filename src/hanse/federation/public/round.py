"""A client's round with a step on public problems at its end, after those on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hanse.federation.draw import Draw
from hanse.federation.local_round import Bench, Kept, LocalRound, Received, Rows, Trained, Underway, at_rest
from hanse.federation.messages import Broadcast
from hanse.federation.public.believing import Believed, believe, weighed
from hanse.federation.public.messages import Pool, Shown
from hanse.federation.public.swap import mixed, right_places, weights_of, wrong_places
from hanse.grpo.learner import LearnerState
from hanse.grpo.step import ERRORS, Stopwatch, compare, score_groups
from hanse.policy.rollout import Group
from hanse.randomness import derive_seed
from hanse.tasks.problem import Problem

STREAM = 1 << 21
"""The id under which public problems are drawn, the same for all: no client's."""
LEFT_OUT = "public/left_out/"
"""Metrics under this name, and a peer's number, count its answers that were left out."""


@dataclass(frozen=True)
class Halfway:
    """A client that has shown its answers and waits for its peers'. `values`: of its model, float32, shape
    (numel,); `groups`: its own answers, scored; `row`: metrics so far. `digest`, `version`: see
    `client.state_after`; `asked`: the broadcast to be answered, without its values."""

    work: Underway
    values: Tensor
    learner: LearnerState
    groups: list[Group]
    row: dict[str, float]
    shown: Shown
    digest: str = ""
    version: int = 0
    asked: Broadcast | None = None


class PublicRound(LocalRound):
    """As `LocalRound`; where a public step is due, it comes last. `public`: the problems."""

    def __init__(self, *arguments: Any, public: Sequence[Problem]) -> None:
        super().__init__(*arguments)
        self.public = public

    def run(self, received: Received, kept: Kept, bench: Bench) -> tuple[Trained, Kept, Rows]:
        """In one go, on own answers alone."""
        work = self.begin(received, kept, bench)
        if self.spec.public.due(received.round):
            groups, row = self._answered(received.round, bench)
            work.rows.append(self._step(groups, row, Believed({}), bench))
        return self.finish(work, bench)

    def show(self, received: Received, kept: Kept, bench: Bench) -> tuple[Halfway, Rows]:
        """The steps on own problems, and answers to the public ones; metrics of the former."""
        work = self.begin(received, kept, bench)
        groups, row = self._answered(received.round, bench)
        learner, spec = bench.learner, self.spec.public
        values = learner.policy.parameters.master.to("cpu", copy=True)
        state = at_rest(learner.state, learner.state.moments)
        learner.corrections = ()
        right = [right_places(g.rewards_G, spec.correct) for g in groups if g.rewards_G is not None]
        answers = tuple(
            tuple(tuple(ids[i]) for i in places[: spec.most])
            for places, ids in zip(right, (g.token_ids_G() for g in groups), strict=True)
        )
        shown = Shown(received.round, self.client, tuple(map(len, right)), answers)
        rows, work.rows = work.rows, []
        return Halfway(work, values, state, groups, row, shown), rows

    def swap(self, half: Halfway, pool: Pool, bench: Bench) -> tuple[Trained, Kept, Rows]:
        """The public step with what the pool has, and the end of the round."""
        learner, offset = bench.learner, half.work.received.offset
        learner.policy.load(half.values if offset is None else torch.cat([half.values, offset]))
        moments = half.learner.moments.to(learner.policy.device)
        learner.state = replace(half.learner, moments=moments)
        learner.corrections = half.work.corrections
        believed = believe(pool, half.groups, self.spec.public, bench.sampler, bench.scorer)
        half.work.rows = [self._step(half.groups, half.row, believed, bench)]
        return self.finish(half.work, bench)

    def drawn(self, round: int, count: int) -> list[Problem]:
        """The public problems of a round, the same for all clients."""
        spec = self.spec.public
        return Draw(self.public, self.seed, STREAM, (round // spec.every - 1) * spec.per_round)(count)[0]

    def _answered(self, round: int, bench: Bench) -> tuple[list[Group], dict[str, float]]:
        """Own answers to the round's public problems, scored, and what is to be said of them."""
        watch, spec = Stopwatch(), self.spec.public
        problems, size = self.drawn(round, spec.per_round), bench.learner.spec.group_size
        seeds = [derive_seed(self.seed, "public", self.client, round, i) for i in range(len(problems))]
        groups = bench.sampler.sample(problems, size, seeds)
        watch.lap("sample")
        scores = score_groups(groups, bench.sampler, bench.scorer)
        watch.lap("score")
        rewards = torch.stack([g.rewards_G for g in groups if g.rewards_G is not None])
        known = rewards[~rewards.isnan()]
        row = {
            "public/reward": float(known.mean()) if known.numel() else 0.0,
            "public/correct": float((rewards >= spec.correct).double().mean()),
            "num_tokens": float(sum(int(g.lengths_G.sum()) for g in groups)),
            "rollouts": float(size * len(groups)),
            "unscored": float(sum(scores.failures.values())),
        }
        row |= {ERRORS + message: float(n) for message, n in scores.errors.items()}
        return groups, row | {f"time/{phase}": spent for phase, spent in watch.seconds.items()}

    def _step(
        self, groups: Sequence[Group], row: dict[str, float], believed: Believed, bench: Bench
    ) -> dict[str, float]:
        """One GRPO step on the mixed groups; its metrics."""
        watch, learner, spec = Stopwatch(), bench.learner, self.spec.public
        offers = weighed(believed.offers, groups, spec, bench.sampler)
        places = {p: wrong_places(r, spec) for p in offers if (r := groups[p].rewards_G) is not None}
        own = [replace(g, parts=None) for g in groups]
        ours = [mixed(g, places[p], offers[p]) if p in offers else g for p, g in enumerate(own)]
        compare(ours, learner.spec, learner, learner.policy)
        for p, found in offers.items():
            advantages = ours[p].advantages_G
            assert advantages is not None
            ours[p].advantages_G = advantages * weights_of(ours[p].size, places[p], found)
        metrics = learner.step(ours)
        watch.lap("train")
        swapped = [offer.weight for found in offers.values() for offer in found]
        told = {"public/swapped": float(len(swapped)), "public/rescored": float(believed.scored)}
        told |= {f"{LEFT_OUT}{peer}": float(n) for peer, n in sorted(believed.left_out.items())}
        if swapped:
            told["public/weight"] = sum(swapped) / len(swapped)
        told |= {f"public/{name}": metrics[name] for name in ("loss", "grad_norm") if name in metrics}
        spent = {"time/train": watch.seconds["train"]}
        total = spent["time/train"] + sum(v for name, v in row.items() if name.startswith("time/"))
        return row | told | spent | {"step_time": total}
