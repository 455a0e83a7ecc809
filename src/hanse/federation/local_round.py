"""A client's local work: from the values it received to those that the receiver should have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from hanse.federation.aggregation import lora_rule
from hanse.federation.calibration import calibrate
from hanse.federation.coherence import GradientMeter
from hanse.federation.draw import Draw, VarianceDraw
from hanse.federation.local import LOCAL_METHODS, Plain, Setting, Vectors
from hanse.federation.payload import pack_vector
from hanse.federation.personal import Personal
from hanse.federation.resting import Resting
from hanse.federation.sending import added, cast_quality, count_changed
from hanse.federation.signal import Signal, measure
from hanse.federation.wire.layout import Layout
from hanse.grpo.correction import Correction
from hanse.grpo.learner import Learner, LearnerState
from hanse.grpo.optimiser import Moments
from hanse.grpo.step import Scoring, grpo_step
from hanse.policy.rollout import Group
from hanse.policy.sampler import Sampler
from hanse.recipe.federation import FederationSpec
from hanse.tasks.problem import Problem

Rows = list[dict[str, float]]


@dataclass(frozen=True)
class Bench:
    """What clients of one process share and take turns at."""

    sampler: Sampler
    scorer: Scoring
    learner: Learner


@dataclass(frozen=True)
class Received:
    """A broadcast, read. `base`: its values in the exchange dtype; `extras`: the local method's vectors;
    `offset`: what is added to the frozen base, shape (M,); `prompts`: of a step, where the server says so."""

    round: int
    base: Tensor
    reward_mean: float | None
    extras: Vectors
    offset: Tensor | None
    prompts: int | None = None


@dataclass(frozen=True)
class Kept:
    """What a client had from its earlier rounds (see `ClientState`)."""

    learner: LearnerState
    cursor: int
    residual: Tensor | None
    unsent: Tensor | None
    personal: Tensor | None
    kept: Vectors
    success: Tensor | None = None


@dataclass(frozen=True)
class Trained:
    """What a round's local work came to: `target` float32, the values that the receiver should have."""

    target: Tensor
    signal: Signal
    changed: int
    extras: Mapping[str, bytes] = field(default_factory=dict)


@dataclass
class Underway:
    """Local work that is not over yet. `first`: the values that it began with, shape (numel,); `corrections`:
    of the learner; `steps`: the groups of each step so far, `rows` their metrics."""

    received: Received
    kept: Kept
    first: Tensor
    method: Plain
    meter: GradientMeter | None
    rest: Resting
    corrections: Sequence[Correction]
    draw: Draw
    steps: list[list[Group]]
    rows: Rows


class LocalRound:
    """Trains one client: its problems, its streams, its rules."""

    def __init__(
        self,
        client: int,
        problems: Sequence[Problem],
        seed: int,
        spec: FederationSpec,
        local_steps: int,
        layout: Layout,
    ) -> None:
        self.client, self.problems, self.seed = client, problems, seed
        self.spec, self.local_steps, self.layout = spec, local_steps, layout
        self._rule = lora_rule(spec.aggregation)
        self._personal = Personal.of(spec.aggregation, layout)
        self._sizes = layout.sizes()

    def run(self, received: Received, kept: Kept, bench: Bench) -> tuple[Trained, Kept, Rows]:
        """All local steps: what to send, what to keep (residuals are the sender's), and metrics of each."""
        return self.finish(self.begin(received, kept, bench), bench)

    def begin(self, received: Received, kept: Kept, bench: Bench) -> Underway:
        """The steps on the client's own problems; its model and learner are then in the bench."""
        learner = bench.learner
        first = self._personal.with_own(added(received.base.to(torch.float32), kept.residual), kept.personal)
        learner.policy.load(first if received.offset is None else torch.cat([first, received.offset]))
        method = self._method(received, kept, first, learner)
        meter = GradientMeter(first) if self.spec.weighting == "coherence" else None
        rest = Resting(self.layout, self._rule.trains(received.round), first)
        corrections = rest.around((method,) if meter is None else (meter, method))
        learner.corrections = corrections
        learner.state = self._learner_state(kept.learner, learner.policy.parameters.master, method)
        draw = self._draw(kept, learner)
        steps, rows = self._steps(draw, received, bench)
        return Underway(received, kept, first, method, meter, rest, corrections, draw, steps, rows)

    def finish(self, work: Underway, bench: Bench) -> tuple[Trained, Kept, Rows]:
        """From the model and the learner in the bench to what is sent and kept."""
        learner, parameters = bench.learner, bench.learner.policy.parameters
        received, kept, method, rows = work.received, work.kept, work.method, work.rows
        learner.corrections = ()
        own = parameters.master.to("cpu", copy=True)  # others train in this model before a grant comes
        target = self._personal.without_own(added(own, kept.unsent), received.base)
        sends, memory = method.finish(parameters.master, learner.state.moments)
        coherence = 0.0 if work.meter is None else work.meter.signal()
        signal = self._measured(work.steps, method.updates, coherence)
        moved = count_changed(target, received.base)
        rows[-1] |= cast_quality(target, work.first, self.layout)
        rows[-1] |= {"comm/density": moved / self.layout.numel}
        trained = Trained(target, signal, moved, {name: pack_vector(v) for name, v in sends.items()})
        moments = work.rest.moments(learner.state.moments, kept.learner.moments)
        left = (at_rest(learner.state, moments), work.draw.cursor, None, None, self._personal.own(own))
        return trained, Kept(*left, memory, work.draw.success), rows

    def _method(self, received: Received, kept: Kept, first: Tensor, learner: Learner) -> Plain:
        beta = learner.spec.betas[1]
        setting = Setting(self.spec.local_options, first, received.extras, kept.kept, self._sizes, beta)
        return LOCAL_METHODS[self.spec.local].client(setting)

    def _steps(self, draw: Draw, received: Received, bench: Bench) -> tuple[list[list[Group]], Rows]:
        """The groups of each local step, and their metrics."""
        weigh = partial(calibrate, global_mean=received.reward_mean, spec=self.spec.calibration)
        results = []
        for _ in range(self.local_steps):
            prompts = received.prompts
            results.append(grpo_step(draw, bench.sampler, bench.scorer, bench.learner, weigh, prompts))
            draw.learn(results[-1].groups)
        return [r.groups for r in results], [dict(r.metrics) for r in results]

    def _measured(self, steps: Sequence[Sequence[Group]], updates: int, coherence: float) -> Signal:
        return measure(steps, len(self.problems), updates=updates, coherence=coherence)

    def _draw(self, kept: Kept, learner: Learner) -> Draw:
        stream = (self.problems, self.seed, self.client, kept.cursor)
        return VarianceDraw(*stream, kept.success) if learner.spec.allocation == "variance" else Draw(*stream)

    def _learner_state(self, kept: LearnerState, like: Tensor, method: Plain) -> LearnerState:
        """A copy to train with, so that `kept` stays what it was."""
        anew = self.spec.moments == "reset" or self._rule.renews
        fresh = Moments.zeros(like) if anew else kept.moments.to(like.device, copy=True)
        return replace(kept, moments=method.moments(fresh), counters=kept.counters.copy())


def at_rest(state: LearnerState, moments: Moments) -> LearnerState:
    """The state between rounds: moments in host memory, as several clients may share one accelerator."""
    return replace(state, moments=moments.to("cpu"))
