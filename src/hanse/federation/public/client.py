"""A client that shows its correct answers to public problems, and takes peers' where its own are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hanse.federation.client import Client, ClientState, kept_of, state_after
from hanse.federation.local_round import Bench, Received, Rows
from hanse.federation.messages import Broadcast, Payload
from hanse.federation.public.messages import Limits, Pool
from hanse.federation.public.round import PublicRound
from hanse.federation.wire.frame import WireError, kind_of
from hanse.grpo.learner import Learner
from hanse.grpo.step import Scoring
from hanse.policy.sampler import Sampler
from hanse.tasks.problem import Problem


@dataclass
class PublicClient(Client):
    """As `Client`. Where answers are shared, a broadcast is answered by Shown, and a Pool by what would have
    answered the broadcast. `public`: problems that all clients have; nothing of its own ones is shown."""

    public: Sequence[Problem] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        task = (self.id, self.problems, self.seed, self.federation, self.local_steps, self.layout)
        self._work = self._rounds = PublicRound(*task, public=self.public)

    def answer(self, data: bytes, sampler: Sampler, scorer: Scoring, learner: Learner) -> tuple[bytes, Rows]:
        """As `Client.answer`, of a pool too. A repeated pool gets the same bytes and no work."""
        if kind_of(data) != "pool":
            return super().answer(data, sampler, scorer, learner)
        longest = sampler.sampling.max_new_tokens
        pool = Pool.from_bytes(data, Limits.of_pool(self.federation.public, longest))
        return self._pooled(pool, Bench(sampler, scorer, learner))

    def _train(self, received: Received, digest: str, version: int, start: ClientState, bench: Bench) -> Rows:
        if not self.federation.public.swaps(received.round):
            return super()._train(received, digest, version, start, bench)
        half, rows = self._rounds.show(received, kept_of(start), bench)
        self.earlier = start
        # Without a pool the round's work is lost, as where a client drops out; what it began from is not.
        self.state = replace(
            start,
            round=received.round,
            base=received.base,
            base_digest=digest,
            offset=received.offset,
            offset_version=version,
            trained=None,
            replies=(),
            halfway=replace(half, digest=digest, version=version),
        )
        return rows

    def _reply(self, broadcast: Broadcast) -> bytes:
        half = self.state.halfway
        if half is None:
            return super()._reply(broadcast)
        asked = replace(broadcast, payload=Payload(broadcast.payload.form, b""), extras={})
        reply = half.shown.to_bytes()
        self.state = replace(self.state, replies=(reply,), halfway=replace(half, asked=asked))
        return reply

    def _pooled(self, pool: Pool, bench: Bench) -> tuple[bytes, Rows]:
        state, half = self.state, self.state.halfway
        if (pool.round, pool.client) != (state.round, self.id):
            raise WireError(f"a pool for client {pool.client} in round {pool.round}")
        if half is None:
            if len(state.replies) < 2 or not self.federation.public.swaps(state.round):
                raise WireError(f"a pool for round {pool.round}, in which nothing was shown")
            return state.replies[1], []
        assert half.asked is not None
        trained, left, rows = self._rounds.swap(half, pool, bench)
        after = state_after(half.work.received, half.digest, half.version, trained, left)
        self.state = replace(after, replies=state.replies)
        return super()._reply(half.asked), rows
