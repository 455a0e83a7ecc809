"""A client of a federation: its own problems, its own moments, one round at a time, transport-free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from hanse.federation.messages import Broadcast, Upload, max_message_bytes
from hanse.federation.signal import measure
from hanse.federation.wire.dense import decode_dense, encode_dense
from hanse.federation.wire.frame import WireError
from hanse.grpo.learner import Learner, LearnerState
from hanse.grpo.optimiser import Moments
from hanse.grpo.step import Scoring, grpo_step
from hanse.policy.rollout import Group
from hanse.policy.sampler import Sampler
from hanse.randomness import derive_seed, generator
from hanse.recipe.model import FederationSpec
from hanse.tasks.problem import Problem


@dataclass(frozen=True)
class ClientState:
    """All that a client carries from one round to the next; never changed in place.

    `cursor` counts the problems drawn so far; `residual` is what the cast to the exchange dtype dropped,
    float32, shape (numel,); `reply` is the last upload, kept to be re-sent byte for byte.
    """

    learner: LearnerState
    round: int = 0
    cursor: int = 0
    residual: Tensor | None = None
    reply: bytes = b""


@dataclass
class Client:
    """Trains on its own problems. `problems` never leave; what leaves is an Upload."""

    id: int
    name: str
    problems: Sequence[Problem]
    seed: int
    federation: FederationSpec
    local_steps: int
    state: ClientState
    earlier: ClientState | None = None
    """The state before the last round: a server that was restored may ask for that round again."""
    _orders: dict[int, list[int]] = field(default_factory=dict)

    def train(
        self, data: bytes, sampler: Sampler, scorer: Scoring, learner: Learner
    ) -> tuple[bytes, list[dict[str, float]]]:
        """Answer a broadcast: the upload's bytes and the metrics of each local step.

        A repeated broadcast gets the same bytes and no training. Raises WireError for anything that is
        not a broadcast of this round or the last.
        """
        parameters = learner.policy.parameters
        numel = parameters.numel
        broadcast = Broadcast.from_bytes(data, max_bytes=numel * 4 + (1 << 17))
        if broadcast.round == self.state.round and self._answers(broadcast):
            return self.state.reply, []
        start = self._state_before(broadcast.round)
        values = decode_dense(broadcast.values, broadcast.dtype, numel).to(torch.float32)
        if start.residual is not None:
            values += start.residual
        parameters.load(values)
        learner.state = self._learner_state(start.learner, parameters.master)
        cursor, groups, rows = start.cursor, [], []
        for _ in range(self.local_steps):
            draw = _Draw(self, cursor)
            result = grpo_step(draw, sampler, scorer, learner)
            cursor = draw.cursor
            groups += result.groups
            rows.append(result.metrics)
        reply = self._upload(broadcast, groups, parameters.master)
        residual = self._residual(parameters.master, broadcast.dtype)
        self.earlier = start
        self.state = ClientState(_at_rest(learner.state), broadcast.round, cursor, residual, reply)
        return reply, rows

    def _answers(self, broadcast: Broadcast) -> bool:
        try:
            sent = Upload.from_bytes(
                self.state.reply, max_bytes=max_message_bytes(len(broadcast.values), broadcast.dtype)
            )
        except WireError:
            return False
        return sent.base == broadcast.base

    def _state_before(self, round: int) -> ClientState:
        """The state to train round `round` from: after a restored server, perhaps the earlier one."""
        if self.state.round < round:
            return self.state
        if self.earlier is not None and self.earlier.round < round:
            return self.earlier
        raise WireError(f"asked for round {round}, but round {self.state.round} is done")

    def _learner_state(self, kept: LearnerState, like: Tensor) -> LearnerState:
        """A copy to train with, so that `kept` stays what it was."""
        moments = kept.moments
        if self.federation.moments == "reset":
            fresh = Moments.zeros(like)
        else:
            first, second = (m.to(like.device, copy=True) for m in (moments.first, moments.second))
            fresh = Moments(first, second, moments.updates)
        return replace(kept, moments=fresh, counters=kept.counters.copy())

    def _upload(self, broadcast: Broadcast, groups: list[Group], master: Tensor) -> bytes:
        return Upload(
            round=broadcast.round,
            client=self.id,
            base=broadcast.base,
            dtype=broadcast.dtype,
            signal=measure(groups, len(self.problems)),
            values=encode_dense(master, broadcast.dtype),
        ).to_bytes()

    def _residual(self, master: Tensor, dtype: str) -> Tensor | None:
        if dtype == "float32" or self.federation.residual == "discard":
            return None
        sent = decode_dense(encode_dense(master, dtype), dtype, master.numel())
        return master.cpu() - sent.to(torch.float32)

    def order(self, epoch: int) -> list[int]:
        """The order in which epoch `epoch` visits the problems."""
        if epoch not in self._orders:
            shuffled = generator(self.seed, "order", self.id, epoch).permutation(len(self.problems))
            self._orders = {epoch: shuffled.tolist()}
        return self._orders[epoch]


def _at_rest(state: LearnerState) -> LearnerState:
    """The state between rounds: moments in host memory, as several clients may share one accelerator."""
    moments = state.moments
    return replace(state, moments=Moments(moments.first.cpu(), moments.second.cpu(), moments.updates))


class _Draw:
    """Draws problems from a client's stream, epoch after epoch, starting at a cursor."""

    def __init__(self, client: Client, cursor: int) -> None:
        self.client, self.cursor = client, cursor

    def __call__(self, count: int) -> tuple[list[Problem], list[int]]:
        client, problems, seeds = self.client, [], []
        for _ in range(count):
            epoch, place = divmod(self.cursor, len(client.problems))
            problems.append(client.problems[client.order(epoch)[place]])
            seeds.append(derive_seed(client.seed, "sample", client.id, self.cursor))
            self.cursor += 1
        return problems, seeds
