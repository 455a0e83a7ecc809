"""A server that relays answers to public problems: it scores none and believes none."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hanse.federation.public.messages import Limits, Pool, Shown
from hanse.federation.public.swap import POOLED, Ids, in_turn, wanted
from hanse.federation.records import PublicRecord, RoundRecord, ServerState
from hanse.federation.server import Server
from hanse.federation.wire.frame import WireError
from hanse.federation.wire.layout import Layout
from hanse.randomness import generator
from hanse.recipe.federation import FederationSpec


class PublicServer(Server):
    """As `Server`; in rounds that share answers everybody shows some first. `size`: of clients' groups;
    `longest`: tokens of an answer."""

    def __init__(
        self,
        spec: FederationSpec,
        layout: Layout,
        clients: Sequence[int],
        state: ServerState,
        *,
        size: int,
        longest: int,
        **settings: Any,
    ) -> None:
        super().__init__(spec, layout, clients, state, **settings)
        self.size, self.longest = size, longest
        self._relayed: PublicRecord | None = None

    def _begun(self) -> Generator[dict[int, bytes], Mapping[int, bytes], dict[int, bytes]]:
        """As of any server; in between, answers go from everybody who shows some to everybody else."""
        replies = yield from super()._begun()
        self._relayed = None
        if not self.spec.public.swaps(self.state.round):
            return replies
        pools = self._pools(replies)
        return dict((yield pools)) if pools else {}

    def close_round(self, uploads: Mapping[int, bytes]) -> RoundRecord:
        return replace(super().close_round(uploads), public=self._relayed)

    def _pools(self, replies: Mapping[int, bytes]) -> dict[int, bytes]:
        """What everybody who answered may take, of those who showed anything that can be read."""
        asked = [k for k in self._opened().clients if k in replies]
        shown, refused = self._read({k: replies[k] for k in asked})
        pools = {k: self._pool(k, shown) for k in asked}
        messages = {k: pool.to_bytes() for k, pool in pools.items()}
        self._relayed = PublicRecord(
            sum(len(own) for one in shown.values() for own in one.answers_P),
            sum(len(pool.peers_N) for pool in pools.values()),
            refused,
            sum(len(replies[k]) for k in asked),
            sum(map(len, messages.values())),
        )
        return self._send(messages)

    def _read(self, replies: Mapping[int, bytes]) -> tuple[dict[int, Shown], list[tuple[int, str]]]:
        limits, shown = Limits.of_shown(self.spec.public, self.longest), dict[int, Shown]()
        refused: list[tuple[int, str]] = []
        for client, data in replies.items():
            self._opened().bytes_up += len(data)
            try:
                one = Shown.from_bytes(data, limits, self.size)
                if (one.round, one.client) != (self.state.round, client):
                    raise WireError("of another client or round")
            except WireError as error:
                refused.append((client, str(error)))
                self.state.ledger[f"client {client}: public answers: {error}"] += 1
            else:
                shown[client] = one
        return shown, refused

    def _pool(self, client: int, shown: Mapping[int, Shown]) -> Pool:
        """Of the problems that `client` lacks answers to; peers in another order at each."""
        spec, peers, answers = self.spec.public, list[int](), list[tuple[Ids, ...]]()
        own = shown.get(client)
        others = [k for k in sorted(shown) if k != client]
        for p in range(spec.per_round):
            right = 0 if own is None else own.right_P[p]
            most = POOLED * spec.most if wanted(right, self.size, spec) else 0
            chance = generator(self.seed, "pool", self.state.round, client, p)
            order = [others[i] for i in chance.permutation(len(others)).tolist()]
            taken = in_turn({k: shown[k].answers_P[p] for k in others}, order, most)
            peers += [k for k, _ in taken]
            answers.append(tuple(ids for _, ids in taken))
        return Pool(self.state.round, client, tuple(answers), tuple(peers))
