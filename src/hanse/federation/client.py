"""A client of a federation: its own problems, its own moments, one message at a time, transport-free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from torch import Tensor

from hanse.federation.aggregation import lora_rule, pairs_of
from hanse.federation.local import LOCAL_METHODS, Vectors
from hanse.federation.local_round import Bench, Kept, LocalRound, Received, Rows, Trained
from hanse.federation.messages import Broadcast, Grant, Report, Resync, Upload, max_message_bytes
from hanse.federation.offset import Lift, followed, size_of
from hanse.federation.payload import unpack, unpack_vector
from hanse.federation.private_round import Private, PrivateRound
from hanse.federation.sending import Outbox, codec_in_force
from hanse.federation.wire.frame import WireError, kind_of
from hanse.federation.wire.layout import Layout
from hanse.federation.wire.patch import digest_of_values
from hanse.grpo.learner import Learner, LearnerState
from hanse.grpo.step import Scoring
from hanse.policy.sampler import Sampler
from hanse.recipe.federation import FederationSpec
from hanse.tasks.problem import Problem

if TYPE_CHECKING:
    from hanse.federation.public.round import Halfway
    from hanse.federation.secure.session import Session

__all__ = ["Client", "ClientState", "Rows", "Trained"]


@dataclass(frozen=True)
class ClientState:
    """All that a client carries from one message to the next; never changed in place.

    `cursor` counts the problems drawn so far. `residual` is added to the values that the next round starts
    from, `unsent` to the next upload. `base`, `base_digest`: the values last received, in the exchange
    dtype. `personal`: entries that never leave, shape (n,); `offset`: what is added to the base, shape (M,).
    `kept` belongs to the local method; `success`: what the draw knows of each problem, float64, shape (N,).
    `trained` waits for a grant. `replies` are the last round's, kept to be re-sent byte for byte; `secure`:
    its part in that round's secure sum; `halfway`: what waits for peers' answers. Tensors float32 unless
    said otherwise, shape (numel,).
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
    success: Tensor | None = None
    trained: Trained | None = None
    replies: tuple[bytes, ...] = ()
    secure: Session | None = None
    halfway: Halfway | None = None


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
    private: Private | None = None
    """Where its problems are to stay private."""

    def __post_init__(self) -> None:
        codec = codec_in_force(self.federation, self.layout.dtype)
        self._outbox = Outbox(self.federation, self.layout, codec)
        task = (self.id, self.problems, self.seed, self.federation, self.local_steps, self.layout)
        private = self.private
        self._work = LocalRound(*task) if private is None else PrivateRound(*task, private=private)
        self._rule, self._pairs = lora_rule(self.federation.aggregation), pairs_of(self.layout)
        sizes = self.layout.sizes()
        self._receives = LOCAL_METHODS[self.federation.local].receives(sizes)

    def answer(self, data: bytes, sampler: Sampler, scorer: Scoring, learner: Learner) -> tuple[bytes, Rows]:
        """Answer a broadcast or a grant: the reply's bytes, and the metrics of each local step.

        A repeated message gets the same bytes and no work. Raises WireError for anything that is not a
        broadcast of this round or the last, or a grant of this round.
        """
        if kind_of(data) == "grant":
            return self._granted(Grant.from_bytes(data)), []
        broadcast = self._read(data)
        answered = (broadcast.round, broadcast.base) == (self.state.round, self.state.base_digest)
        if answered and self.state.replies:
            return self.state.replies[0], []
        start = self._state_before(broadcast.round)
        known = start.base_digest if start.base is not None else None
        offset, version = self._followed(broadcast, start)
        lost = broadcast.payload.form == "patch" and broadcast.patched != known
        if lost or (offset is None and version > 0):
            return Resync(broadcast.round, self.id).to_bytes(), []
        base = unpack(broadcast.payload, start.base, self.layout, start.base_digest or None)
        if digest_of_values(base, self.layout) != broadcast.base:
            raise WireError("the values are not those that the server names")
        received = Received(
            broadcast.round, base, broadcast.reward_mean, self._extras(broadcast), offset, broadcast.prompts
        )
        rows = self._train(received, broadcast.base, version, start, Bench(sampler, scorer, learner))
        return self._reply(broadcast), rows

    def _reply(self, broadcast: Broadcast) -> bytes:
        """To a broadcast, once the round's work is done."""
        return self._report() if broadcast.reporting else self._upload(self._count(broadcast))

    def _read(self, data: bytes) -> Broadcast:
        receives = sum(self._receives.values()) + (size_of(self._pairs) if self._rule.lifts else 0)
        limit = max_message_bytes(self.layout.numel, self.layout.dtype) + 4 * receives
        broadcast = Broadcast.from_bytes(data, max_bytes=limit)
        if broadcast.prompts is not None and self.federation.rollouts == "equal":
            raise WireError("allots prompts, which the recipe does not")
        return broadcast

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

    def _train(self, received: Received, digest: str, version: int, start: ClientState, bench: Bench) -> Rows:
        trained, left, rows = self._work.run(received, kept_of(start), bench)
        self.earlier = start
        self.state = state_after(received, digest, version, trained, left)
        return rows

    def _count(self, broadcast: Broadcast) -> int | None:
        """Entries that may be sent without asking: all (None), a number, or a share of what changed."""
        assert self.state.trained is not None
        if broadcast.entries is not None or broadcast.fraction is None:
            return broadcast.entries
        return round(broadcast.fraction * self.state.trained.changed)

    def _extras(self, broadcast: Broadcast) -> Vectors:
        sizes = self._receives
        extras = set(broadcast.extras) - ({"lift"} if self._rule.lifts else set())
        if not extras:
            return {}
        if extras != set(sizes):
            raise WireError("extras are not those of the local method")
        return {name: unpack_vector(broadcast.extras[name], size) for name, size in sizes.items()}

    def _report(self) -> bytes:
        """Until a grant comes, everything is left over: if none does, nothing is lost."""
        state, trained = self.state, self.state.trained
        assert trained is not None and state.base is not None
        reply = Report(state.round, self.id, state.base_digest, trained.signal, trained.changed).to_bytes()
        residual, unsent = self._outbox.left_over(trained.target, state.base)
        self.state = replace(state, residual=residual, unsent=unsent, replies=(*state.replies, reply))
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


def kept_of(start: ClientState) -> Kept:
    """What a round's work takes of the state before it."""
    own = (start.residual, start.unsent, start.personal)
    return Kept(start.learner, start.cursor, *own, start.kept, start.success)


def state_after(received: Received, digest: str, version: int, trained: Trained, left: Kept) -> ClientState:
    """The state once a round's work is done, and nothing of it sent. `digest`: of the values received;
    `version`: of their offset."""
    return ClientState(
        learner=left.learner,
        round=received.round,
        cursor=left.cursor,
        base=received.base,
        base_digest=digest,
        personal=left.personal,
        offset=received.offset,
        offset_version=version,
        kept=left.kept,
        success=left.success,
        trained=trained,
    )
