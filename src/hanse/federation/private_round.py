"""A client's local work under privacy: paid for before it is done, and not done where it cannot be paid."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hanse.errors import RunError
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
    """A client's account, and how its steps go. `setting`: digest of the run that they are steps of."""

    account: Account
    asked: Asked
    setting: str = ""


class PrivateRound(LocalRound):
    """As `LocalRound`, with private steps. Who has spent its budget sends back what it received."""

    def __init__(self, *arguments: Any, private: Private) -> None:
        super().__init__(*arguments)
        self._private = private
        self._sums: list[Tensor | None] = []
        self._answered = Counter[str]()
        self._purpose = ""

    def run(self, received: Received, kept: Kept, bench: Bench) -> tuple[Trained, Kept, Rows]:
        """Charged for what a round's sums depend on: after a crash the same is the same bits, and free.

        Raises RunError where the account has fewer steps than the client did: what it spent is unknown.
        """
        account, total_steps = self._private.account, bench.learner.total_steps
        self._check(account, kept.learner.step)
        inputs = f"{received.round}-{_inputs(received, kept, self._private.setting, total_steps)}"
        self._purpose = self._again(inputs)
        if account.charge(self._purpose, self.local_steps):
            trained, left, rows = super().run(received, kept, bench)
            self._answered[inputs] += 1
        else:
            base, zero = received.base.to(torch.float32), Signal(0.0, 0.0, 0, 0, len(self.problems))
            trained, left, rows = Trained(base, zero, 0), kept, [{"privacy/abstained": 1.0}]
        rows[-1] |= self.told()
        return trained, left, rows

    def _check(self, account: Account, done: int) -> None:
        if done > account.steps:
            raise RunError(
                f"client {self.client} did {done} private steps, and its privacy account knows of "
                f"{account.steps}: it was lost, or is an older copy. What was spent is unknown, so it "
                "may not go on: restore the account, or start a new run."
            )

    def _again(self, inputs: str) -> str:
        """What a round is charged for. One that was answered in this client's life is another when it is
        asked for again: rewards need not be the same twice, and under the same noise the difference shows."""
        times = self._answered[inputs]
        return f"{inputs}-{times}" if times else inputs

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
            start = _digest(values, received.reward_mean, learner.state.step)
            own = self._private.account.stream.sub(self._purpose, start)
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


def _inputs(received: Received, kept: Kept, setting: str, total_steps: int) -> str:
    """What the sums of a round depend on, beside the client's problems: all that moves what its steps start
    from, as each of those asks anew."""
    vectors = [values[name] for values in (received.extras, kept.kept) for name in sorted(values)]
    moments = [kept.learner.moments.first, kept.learner.moments.second]
    own = [kept.residual, kept.personal, *moments, *vectors]
    numbers = (received.reward_mean, kept.learner.step, kept.learner.moments.updates, total_steps)
    return _digest([received.base, received.offset, *own], setting, len(received.extras), *numbers)


def _digest(tensors: Sequence[Tensor | None], *values: float | str | None) -> str:
    digest = hashlib.blake2b(json.dumps(values).encode(), digest_size=16)
    for tensor in tensors:
        known = torch.empty(0) if tensor is None else tensor.detach().cpu().contiguous().flatten()
        digest.update(f"{known.dtype}{len(known)}".encode())
        digest.update(known.view(torch.uint8).numpy().data)
    return digest.hexdigest()
