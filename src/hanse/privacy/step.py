"""One private GRPO step: a Poisson sample of the problems, and of its groups nothing but a noised sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from hanse.grpo.step import Scoring, Stopwatch, compare, rollout_metrics, score_groups
from hanse.policy.rollout import Group
from hanse.policy.sampler import Sampler
from hanse.privacy.account import Terms
from hanse.privacy.learner import PrivateLearner, Query
from hanse.privacy.noise import Stream
from hanse.privacy.sampling import poisson_sample
from hanse.privacy.signals import noised_sums, signal_sums
from hanse.recipe.privacy import PrivacySpec
from hanse.tasks.problem import Problem

UNCOVERED = "uncovered/"
"""Metrics under it tell of training problems: they are the client's own business."""
Weigh = Callable[[Sequence[Group]], None]


@dataclass(frozen=True)
class Asked:
    """How a client's steps go. `expected`: groups of a step, on average, of `group_size` rollouts; `apart`:
    score group by group, as a reward function that sees several could mix them."""

    spec: PrivacySpec
    terms: Terms
    expected: int
    group_size: int
    apart: bool = True

    @property
    def query(self) -> Query:
        return Query(self.spec.clip, self.terms.noise * self.spec.sensitivity, self.expected)


@dataclass(frozen=True)
class PrivateResult:
    """`signals`: noised sums over groups of reward mean and deviation, shape (2,), if they were asked for."""

    metrics: dict[str, float]
    signals: Tensor | None


def private_step(
    problems: Sequence[Problem],
    sampler: Sampler,
    scorer: Scoring,
    learner: PrivateLearner,
    asked: Asked,
    stream: Stream,
    weigh: Weigh | None = None,
) -> PrivateResult:
    """Run one step and update the learner's policy in place. All that is random comes from `stream`, which is
    of this step and of the values that it starts from. `weigh` may scale a group's advantages by what it
    finds in that group alone."""
    watch, spec = Stopwatch(), learner.spec
    chosen, seeds = drawn(problems, asked.terms.rate, stream)
    groups = sampler.sample(chosen, asked.group_size, seeds) if chosen else []
    watch.lap("sample")
    if groups:
        for part in [[group] for group in groups] if asked.apart else [groups]:
            score_groups(part, sampler, scorer)
        compare(groups, spec, learner, sampler.policy)
        if weigh is not None:
            weigh(groups)
    watch.lap("score")
    learnt = learner.private_step(groups, asked.query, stream.sub("noise"))
    told: dict[str, float] = {
        name: learnt.pop(name) for name in ("learning_rate", "grad_norm") if name in learnt
    }
    watch.lap("train")
    told |= {"rollouts": float(asked.expected * asked.group_size)}
    if asked.spec.metrics == "uncovered":
        own = learnt | (rollout_metrics(groups) if groups else {}) | {"groups": float(len(groups))}
        own |= {f"time/{phase}": seconds for phase, seconds in watch.seconds.items()}
        own["step_time"] = sum(watch.seconds.values())  # tells how many problems were drawn
        told |= {UNCOVERED + name: value for name, value in own.items()}
    return PrivateResult(told, _signals(groups, asked, stream))


def drawn(problems: Sequence[Problem], rate: float, stream: Stream) -> tuple[list[Problem], list[int]]:
    """Problems of a step, and the seed of each one's rollouts, which depends on no other problem."""
    chosen = [problems[i] for i in poisson_sample(stream.sub("sample"), len(problems), rate)]
    return chosen, [stream.sub("rollouts", problem.id).seed() for problem in chosen]


def _signals(groups: Sequence[Group], asked: Asked, stream: Stream) -> Tensor | None:
    if asked.spec.signals == "constant":
        return None
    sums = signal_sums([group.rewards_G for group in groups if group.rewards_G is not None])
    return noised_sums(sums, asked.terms.noise, asked.spec.signal_scale, stream.sub("signals").normal(2))
