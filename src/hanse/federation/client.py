"""A client of a federation: its own problems, its own moments, one message at a time, transport-free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from hanse.federation.aggregation import lora_rule, pairs_of
from hanse.federation.calibration import calibrate
from hanse.federation.coherence import GradientMeter
from hanse.federation.draw import Draw
from hanse.federation.local import LOCAL_METHODS, Setting, Vectors
from hanse.federation.messages import (
    Broadcast,
    Grant,
    Report,
    Resync,
    Upload,
    max_message_bytes,
)
from hanse.federation.offset import Lift, followed, size_of
from hanse.federation.payload import pack_vector, unpack, unpack_vector
from hanse.federation.personal import Personal
from hanse.federation.resting import Resting
from hanse.federation.sending import Outbox, added, cast_quality, codec_in_force
from hanse.federation.signal import Signal, measure
from hanse.federation.wire.frame import WireError, kind_of
from hanse.federation.wire.layout import Layout
from hanse.federation.wire.patch import digest_of_values
from hanse.grpo.learner import Learner, LearnerState
from hanse.grpo.optimiser import Moments
from hanse.grpo.step import Scoring, grpo_step
from hanse.policy.rollout import Group
from hanse.policy.sampler import Sampler
from hanse.recipe.federation import FederationSpec
from hanse.tasks.problem import Problem

Rows = list[dict[str, float]]


@dataclass(frozen=True)
class Trained:
    """What a round's local work came to: `target` float32, the values that the receiver should have."""

    target: Tensor
    signal: Signal
    changed: int
    extras: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class ClientState:
    """All that a client carries from one message to the next; never changed in place.

    `cursor` counts the problems drawn so far. `residual` is added to the values that the next round starts
    from, `unsent` to the next upload. `base`, `base_digest`: the values last received, in the exchange
    dtype. `personal`: entries that never leave, shape (n,); `offset`: what is added to the base, shape (M,).
    `kept` belongs to the local method. `trained` waits for a grant. `replies` are the last round's, kept to
    be re-sent byte for byte. Tensors float32 unless said otherwise, shape (numel,).
    """

    learner: LearnerState
    round: int = 0
    cursor: int = 0
    residual: Tensor | None = None
    unsent: Tensor | None = None
    base: Tensor | None = None
    base_digest: str = ""
    personal: Tensor | None = None
    offset: Tensor | None = None
    offset_version: int = 0
    kept: Vectors = field(default_factory=dict)
    trained: Trained | None = None
    replies: tuple[bytes, ...] = ()


@dataclass
class Client:
    """Trains on its own problems. `problems` never leave; what leaves is a Report or an Upload."""

    id: int
    name: str
    problems: Sequence[Problem]
    seed: int
    federation: FederationSpec
    local_steps: int
    layout: Layout
    state: ClientState
    earlier: ClientState | None = None
    """The state before the last round: a server that was restored may ask for that round again."""

    def __post_init__(self) -> None:
        codec = codec_in_force(self.federation, self.layout.dtype)
        self._outbox = Outbox(self.federation, self.layout, codec)
        self._method = LOCAL_METHODS[self.federation.local]
        self._rule, self._pairs = lora_rule(self.federation.aggregation), pairs_of(self.layout)
        self._personal = Personal.of(self.federation.aggregation, self.layout)
        self._sizes = [part.stop - part.start for part in self.layout.slices()]

    def answer(self, data: bytes, sampler: Sampler, scorer: Scoring, learner: Learner) -> tuple[bytes, Rows]:
        """Answer a broadcast or a grant: the reply's bytes, and the metrics of each local step.

        A repeated message gets the same bytes and no work. Raises WireError for anything that is not a
        broadcast of this round or the last, or a grant of this round.
        """
        if kind_of(data) == "grant":
            return self._granted(Grant.from_bytes(data)), []
        receives = sum(self._method.receives(self._sizes).values())
        receives += size_of(self._pairs) if self._rule.lifts else 0
        limit = max_message_bytes(self.layout.numel, self.layout.dtype) + 4 * receives
        broadcast = Broadcast.from_bytes(data, max_bytes=limit)
        if (
            broadcast.round == self.state.round
            and broadcast.base == self.state.base_digest
            and self.state.replies
        ):
            return self.state.replies[0], []
        start = self._state_before(broadcast.round)
        known = start.base_digest if start.base is not None else None
        if broadcast.payload.form == "patch" and broadcast.patched != known:
            return Resync(broadcast.round, self.id).to_bytes(), []
        offset, version = self._followed(broadcast, start)
        if offset is None and version > 0:
            return Resync(broadcast.round, self.id).to_bytes(), []
        return self._train(broadcast, start, (offset, version), sampler, scorer, learner)

    def _followed(self, broadcast: Broadcast, start: ClientState) -> tuple[Tensor | None, int]:
        """The base's offset for this round and its version; no offset where the client missed one."""
        if broadcast.lift is None or "lift" not in broadcast.extras or not self._rule.lifts:
            return None, 0
        lift = Lift(*broadcast.lift, broadcast.extras["lift"])
        return followed(self._pairs, start.offset, start.offset_version, lift), lift.version

    def _state_before(self, round: int) -> ClientState:
        """The state to train round `round` from: after a restored server, perhaps the earlier one."""
        if self.state.round < round:
            return self.state
        if self.earlier is not None and self.earlier.round < round:
            return self.earlier
        raise WireError(f"asked for round {round}, but round {self.state.round} is done")

    def _train(
        self,
        broadcast: Broadcast,
        start: ClientState,
        offset: tuple[Tensor | None, int],
        sampler: Sampler,
        scorer: Scoring,
        learner: Learner,
    ) -> tuple[bytes, Rows]:
        base = unpack(broadcast.payload, start.base, self.layout, start.base_digest or None)
        if digest_of_values(base, self.layout) != broadcast.base:
            raise WireError("the values are not those that the server names")
        extras = self._extras(broadcast)
        parameters = learner.policy.parameters
        first = self._personal.with_own(added(base.to(torch.float32), start.residual), start.personal)
        learner.policy.load(first if offset[0] is None else torch.cat([first, offset[0]]))
        method = self._method.client(
            Setting(
                self.federation.local_options, first, extras, start.kept, self._sizes, learner.spec.betas[1]
            )
        )
        meter = GradientMeter(first) if self.federation.weighting == "coherence" else None
        rest = Resting(self.layout, self._rule.trains(broadcast.round), first)
        learner.corrections = rest.around((method,) if meter is None else (meter, method))
        before = self._learner_state(start.learner, parameters.master)
        learner.state = replace(before, moments=method.moments(before.moments))
        steps, cursor, rows = self._steps(broadcast, start.cursor, sampler, scorer, learner)
        learner.corrections = ()
        learner.state = replace(
            learner.state, moments=rest.moments(learner.state.moments, start.learner.moments)
        )
        own = parameters.master.to("cpu", copy=True)  # others train in this model before a grant comes
        target = self._personal.without_own(added(own, start.unsent), base)
        sends, kept = method.finish(parameters.master, learner.state.moments)
        rows[-1] |= cast_quality(target, first, self.layout)
        trained = Trained(
            target=target,
            signal=measure(
                steps,
                len(self.problems),
                updates=method.updates,
                coherence=0.0 if meter is None else meter.signal(),
            ),
            changed=self._outbox.count_changed(target, base),
            extras={name: pack_vector(vector) for name, vector in sends.items()},
        )
        rows[-1]["comm/density"] = trained.changed / self.layout.numel
        self.earlier = start
        self.state = ClientState(
            learner=_at_rest(learner.state),
            round=broadcast.round,
            cursor=cursor,
            base=base,
            base_digest=broadcast.base,
            personal=self._personal.own(own),
            offset=offset[0],
            offset_version=offset[1],
            kept=kept,
            trained=trained,
        )
        return (self._report() if broadcast.reporting else self._upload(_count(broadcast, trained))), rows

    def _steps(
        self, broadcast: Broadcast, cursor: int, sampler: Sampler, scorer: Scoring, learner: Learner
    ) -> tuple[list[list[Group]], int, Rows]:
        """The groups of each local step, the cursor after them, and their metrics."""
        draw = Draw(self.problems, self.seed, self.id, cursor)
        weigh = partial(calibrate, global_mean=broadcast.reward_mean, spec=self.federation.calibration)
        results = [grpo_step(draw, sampler, scorer, learner, weigh) for _ in range(self.local_steps)]
        return [r.groups for r in results], draw.cursor, [dict(r.metrics) for r in results]

    def _extras(self, broadcast: Broadcast) -> Vectors:
        sizes = self._method.receives(self._sizes)
        extras = set(broadcast.extras) - ({"lift"} if self._rule.lifts else set())
        if not extras:
            return {}
        if extras != set(sizes):
            raise WireError("extras are not those of the local method")
        return {name: unpack_vector(broadcast.extras[name], size) for name, size in sizes.items()}

    def _learner_state(self, kept: LearnerState, like: Tensor) -> LearnerState:
        """A copy to train with, so that `kept` stays what it was."""
        moments = kept.moments
        if self.federation.moments == "reset" or self._rule.renews:
            fresh = Moments.zeros(like)
        else:
            first, second = (m.to(like.device, copy=True) for m in (moments.first, moments.second))
            fresh = Moments(first, second, moments.updates)
        return replace(kept, moments=fresh, counters=kept.counters.copy())

    def _report(self) -> bytes:
        """Until a grant comes, everything is left over: if none does, nothing is lost."""
        state, trained = self.state, self.state.trained
        assert trained is not None and state.base is not None
        reply = Report(state.round, self.id, state.base_digest, trained.signal, trained.changed).to_bytes()
        residual, unsent = self._outbox.left_over(trained.target, state.base)
        self.state = replace(state, residual=residual, unsent=unsent, replies=(reply,))
        return reply

    def _granted(self, grant: Grant) -> bytes:
        if grant.client != self.id or grant.round != self.state.round:
            raise WireError(f"a grant for client {grant.client} in round {grant.round}")
        if self.state.trained is None:
            if not self.state.replies:
                raise WireError(f"a grant for round {grant.round}, which nothing was reported of")
            return self.state.replies[-1]
        return self._upload(grant.entries)

    def _upload(self, count: int | None) -> bytes:
        state, trained = self.state, self.state.trained
        assert trained is not None and state.base is not None
        sent = self._outbox.send(trained.target, state.base, state.base_digest, count)
        reply = Upload(
            round=state.round,
            client=self.id,
            base=state.base_digest,
            dtype=self.layout.dtype,
            signal=trained.signal,
            payload=sent.payload,
            changed=trained.changed,
            extras=trained.extras,
        ).to_bytes()
        self.state = replace(
            state,
            residual=sent.residual,
            unsent=sent.unsent,
            base=None if self._outbox.codec == "dense" else state.base,
            trained=None,
            replies=(*state.replies, reply),
        )
        return reply


def _count(broadcast: Broadcast, trained: Trained) -> int | None:
    """Entries that may be sent without asking: all (None), a number, or a share of what changed."""
    if broadcast.entries is not None:
        return broadcast.entries
    if broadcast.fraction is not None:
        return round(broadcast.fraction * trained.changed)
    return None


def _at_rest(state: LearnerState) -> LearnerState:
    """The state between rounds: moments in host memory, as several clients may share one accelerator."""
    moments = state.moments
    return replace(state, moments=Moments(moments.first.cpu(), moments.second.cpu(), moments.updates))
