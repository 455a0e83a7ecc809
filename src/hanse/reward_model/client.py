"""A client of a federated reward model: the federation's client, whose local work is on preferences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from hanse.federation.client import Client, ClientState
from hanse.federation.draw import Draw
from hanse.federation.local_round import Kept, LocalRound, Received, Rows, Trained
from hanse.federation.payload import unpack
from hanse.federation.sending import added, count_changed
from hanse.federation.signal import Signal
from hanse.federation.wire.layout import Layout
from hanse.grpo.learner import LearnerState
from hanse.grpo.optimiser import Moments
from hanse.recipe.federation import FederationSpec
from hanse.reward_model.learner import PreferenceLearner
from hanse.tasks.problem import Problem

_NONE: Any = None
"""Nothing is sampled or scored here."""


class PreferenceRound(LocalRound):
    """Trains one client on its pairs."""

    def __init__(
        self,
        client: int,
        problems: Sequence[Problem],
        seed: int,
        spec: FederationSpec,
        layout: Layout,
        learner: PreferenceLearner,
    ) -> None:
        super().__init__(client, problems, seed, spec, learner.spec.local_steps, layout)
        self._learner = learner

    def run(self, received: Received, kept: Kept, bench: Any = None) -> tuple[Trained, Kept, Rows]:
        """All local steps: what to send, what to keep, and metrics of each step."""
        learner, parameters = self._learner, self._learner.model.parameters
        parameters.load(added(received.base.to(torch.float32), kept.residual).to(parameters.master.device))
        state = self._state(kept.learner, parameters.master)
        draw = Draw(self.problems, self.seed, self.client, kept.cursor)
        rows = learner.fit(draw, self.local_steps, state)
        target = added(parameters.master.to("cpu", copy=True), kept.unsent)
        changed = count_changed(target, received.base)
        left = Kept(replace(state, moments=state.moments.to("cpu")), draw.cursor, None, None, None, kept.kept)
        return Trained(target, self._signal(rows), changed), left, rows

    def _state(self, kept: LearnerState, like: Tensor) -> LearnerState:
        """A copy to train with, so that `kept` stays what it was."""
        anew = self.spec.moments == "reset"
        fresh = Moments.zeros(like) if anew else kept.moments.to(like.device, copy=True)
        return replace(kept, moments=fresh, counters=kept.counters.copy())

    def _signal(self, rows: Rows) -> Signal:
        """`reward_mean` is the accuracy on the round's pairs, before each step."""
        accuracies = [row["reward/accuracy"] for row in rows]
        mean, seen = sum(accuracies) / len(accuracies), len(rows) * self._learner.spec.pairs_per_step
        return Signal(
            mean,
            0.0,
            seen,
            seen,
            len(self.problems),
            reward_first=accuracies[0],
            reward_last=accuracies[-1],
            updates=len(rows),
        )


class PreferenceClient(Client):
    """Pairs of completions in the place of problems; they never leave."""

    def __init__(self, learner: PreferenceLearner, **fields: Any) -> None:
        super().__init__(**fields, local_steps=learner.spec.local_steps, state=ClientState(_rested(learner)))
        self._work = PreferenceRound(self.id, self.problems, self.seed, self.federation, self.layout, learner)

    def reply(self, data: bytes) -> tuple[bytes, Rows]:
        """As `answer`."""
        return self.answer(data, _NONE, _NONE, _NONE)

    def values_of(self, data: bytes) -> Tensor:
        """What a broadcast of whole values asks to train from, float32, shape (numel,). Raises WireError."""
        broadcast = self._read(data)
        return unpack(broadcast.payload, None, self.layout, None).to(torch.float32)


def _rested(learner: PreferenceLearner) -> LearnerState:
    state = learner.fresh_state()
    return replace(state, moments=Moments.zeros(state.moments.first.cpu()))
