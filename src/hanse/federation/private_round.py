"""A client's local work under privacy: paid for before it is done, and not done where it cannot be paid."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hanse.federation.calibration import calibrate
from hanse.federation.draw import Draw
from hanse.federation.local_round import Bench, Kept, LocalRound, Received, Rows, Trained
from hanse.federation.signal import Signal, largest_std
from hanse.policy.rollout import Group
from hanse.privacy.account import Account
from hanse.privacy.learner import PrivateLearner
from hanse.privacy.step import Asked, PrivateResult, private_step


@dataclass(frozen=True)
class Private:
    """A client's account, and how its steps go."""

    account: Account
    asked: Asked


class PrivateRound(LocalRound):
    """As `LocalRound`, with private steps. Who has spent its budget sends back what it received."""

    def __init__(self, *arguments: Any, private: Private) -> None:
        super().__init__(*arguments)
        self._private = private
        self._sums: list[Tensor | None] = []

    def run(self, received: Received, kept: Kept, bench: Bench) -> tuple[Trained, Kept, Rows]:
        """Charged for what a round's sums depend on: the same again is the same bits, and charged once."""
        purpose = f"{received.round}-{_inputs(received, kept)}"
        if self._private.account.charge(purpose, self.local_steps):
            trained, left, rows = super().run(received, kept, bench)
        else:
            base, zero = received.base.to(torch.float32), Signal(0.0, 0.0, 0, 0, len(self.problems))
            trained, left, rows = Trained(base, zero, 0), kept, [{"privacy/abstained": 1.0}]
        rows[-1] |= self.told()
        return trained, left, rows

    def told(self) -> dict[str, float]:
        """The account in numbers, none of which depends on what the problems are."""
        account = self._private.account
        terms, further = account.terms, account.steps + self.local_steps
        row = {"privacy/delta": terms.delta, "privacy/noise": terms.noise, "privacy/rate": terms.rate}
        row |= {"privacy/steps": float(account.steps), "privacy/seeded": float(terms.seeded)}
        row["privacy/exhausted"] = float(not terms.within(further))
        return row | ({"privacy/epsilon": account.epsilon} if terms.noise > 0 else {})

    def _steps(self, draw: Draw, received: Received, bench: Bench) -> tuple[list[list[Group]], Rows]:
        learner = bench.learner
        assert isinstance(learner, PrivateLearner)
        weigh = partial(calibrate, global_mean=received.reward_mean, spec=self.spec.calibration)
        results: list[PrivateResult] = []
        for _ in range(self.local_steps):
            values = [learner.policy.parameters.master, received.offset]
            own = self._private.account.stream.sub(_digest(values, received.reward_mean, learner.state.step))
            tools = (self.problems, bench.sampler, bench.scorer, learner)
            results.append(private_step(*tools, self._private.asked, own, weigh))
        self._sums = [result.signals for result in results]
        return [], [dict(result.metrics) for result in results]

    def _measured(self, steps: Sequence[Sequence[Group]], updates: int, coherence: float) -> Signal:
        """Constants, or means of noised sums moved to where honest ones can be."""
        groups = self._private.asked.expected * self.local_steps
        fixed = Signal(0.0, 0.0, groups, groups, len(self.problems), updates=updates, coherence=coherence)
        sums = [one for one in self._sums if one is not None]
        if not sums:
            return fixed
        means = torch.stack(sums) / self._private.asked.expected
        mean, deviation = means.mean(0).clamp(0, 1).tolist()
        first, last = means[[0, -1], 0].clamp(0, 1).tolist()
        return replace(
            fixed,
            reward_mean=mean,
            reward_std=min(deviation, largest_std(mean, 0.0, 1.0, self._private.asked.group_size)),
            reward_std_pooled=(mean * (1 - mean)) ** 0.5,
            reward_first=first,
            reward_last=last,
        )


def _inputs(received: Received, kept: Kept) -> str:
    """What the sums of a round depend on, beside the client's problems and the recipe."""
    tensors = [received.base, kept.residual, kept.personal, received.offset]
    return _digest(tensors, received.reward_mean, kept.learner.step)


def _digest(tensors: Sequence[Tensor | None], *values: float | None) -> str:
    digest = hashlib.blake2b(json.dumps(values).encode(), digest_size=16)
    for tensor in tensors:
        known = torch.empty(0) if tensor is None else tensor.detach().cpu().contiguous().flatten()
        digest.update(f"{known.dtype}{len(known)}".encode())
        digest.update(known.view(torch.uint8).numpy().data)
    return digest.hexdigest()
