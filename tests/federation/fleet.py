"""A server and real clients in one process, and a log of what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hanse.federation.exchange import run_round
from hanse.federation.messages import Broadcast, Upload
from hanse.federation.server import Server, ServerState
from hanse.federation.wire.frame import kind_of
from hanse.tasks.problem import Problem
from tests.federation.test_client import SPEC, World

LIMIT = 1 << 24


class Fleet:
    """`silent`: clients that answer nothing; `sent`, `answered`: all exchanges, the last one last."""

    def __init__(self, clients: int = 2, dtype: str = "bfloat16", seed: int = 0, **federation) -> None:
        self.world = World(**federation)
        self.dtype, self.seed = dtype, seed
        self.clients = {k: self._client(k) for k in range(clients)}
        self.silent: set[int] = set()
        self.sent: list[Mapping[int, bytes]] = []
        self.answered: list[dict[int, bytes]] = []
        self.server = self.serve(ServerState(self.world.master.clone()))

    def _client(self, index: int):
        client = self.world.client(index, self.dtype)
        problems = [Problem(f"{index}-{i}", f"{i:03d}+{index:03d}=", "1") for i in range(5 + index)]
        return replace(client, problems=problems)

    def serve(self, state: ServerState) -> Server:
        spec, layout = self.world.federation, self.world.layout(self.dtype)
        return Server(spec, layout, list(self.clients), state, seed=self.seed, group_size=SPEC.group_size)

    def answer(self, index: int, data: bytes) -> bytes:
        return self.world.train(self.clients[index], data)[0]

    def send(self, messages: Mapping[int, bytes]) -> dict[int, bytes]:
        self.sent.append(messages)
        self.answered.append({k: self.answer(k, m) for k, m in messages.items() if k not in self.silent})
        return self.answered[-1]

    def round(self, send=None):
        """One round's record."""
        self.sent, self.answered = [], []
        return run_round([self.server], send or self.send)[0]

    @property
    def spoken(self) -> list[tuple[set[str], set[str]]]:
        """Of each exchange of the last round, the kinds of messages down and up."""
        return [
            ({kind_of(m) for m in down.values()}, {kind_of(m) for m in up.values()})
            for down, up in zip(self.sent, self.answered, strict=True)
        ]

    def broadcast(self, index: int) -> Broadcast:
        return Broadcast.from_bytes(self.sent[0][index], max_bytes=LIMIT)

    def upload(self, index: int) -> Upload:
        return Upload.from_bytes(self.answered[-1][index], max_bytes=LIMIT)
