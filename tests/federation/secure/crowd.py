"""A secure server and clients that do not train: each has an update by hand, and answers like a real one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from hanse.federation.exchange import run_round
from hanse.federation.messages import Broadcast, Report
from hanse.federation.records import RoundRecord, ServerState
from hanse.federation.secure.server import SecureServer
from hanse.federation.secure.session import Desk, Session
from hanse.federation.signal import Signal
from hanse.federation.wire.frame import WireError, kind_of
from hanse.federation.wire.layout import Layout
from hanse.randomness import generator
from hanse.recipe.federation import FederationSpec
from hanse.recipe.secure import Reach

ENTRIES, REACH = 96, 0.5
STAGES = ("broadcast", "secure-invitation", "secure-delivery", "secure-request")
"""What the server asks, in order."""
Tamper = Callable[[str, int, bytes], bytes | None]
"""(kind of question, client, honest answer) -> what arrives, None: nothing."""


class Crowd:
    """`updates`: by client, within the range; `heard`: by kind of question all answers of the last round."""

    def __init__(self, clients: int = 5, **secure: object) -> None:
        self.spec = FederationSpec(weighting="samples", secure={"enabled": True, **secure})
        self.layout = Layout(("w",), ((ENTRIES,),), "float32")
        draw = torch.Generator().manual_seed(0)
        self.updates = {k: torch.rand(ENTRIES, generator=draw) - 0.5 for k in range(clients)}
        self.samples = {k: 10 + k for k in range(clients)}
        entropy = {k: generator("crowd", k).bytes for k in range(clients)}
        self.desks = {k: Desk(k, self.spec, self.layout, entropy[k]) for k in range(clients)}
        self.sessions: dict[int, Session] = {}
        self.server = self.serve()
        self.asked: dict[str, Mapping[int, bytes]] = {}
        self.heard: dict[str, dict[int, bytes]] = {}

    def serve(self) -> SecureServer:
        state = ServerState(torch.zeros(ENTRIES))
        reach = Reach(REACH, 0.0, 0.0)
        return SecureServer(self.spec, self.layout, list(self.updates), state, reach=reach, group_size=4)

    def answer(self, client: int, data: bytes) -> bytes:
        desk = self.desks[client]
        if kind_of(data) == "broadcast":
            opened = Broadcast.from_bytes(data, max_bytes=1 << 20)
            signal = Signal(0.5, 0.25, 4, 3, self.samples[client])
            self.sessions[client], reply = desk.open(
                Report(opened.round, client, opened.base, signal, ENTRIES)
            )
            return reply
        try:
            self.sessions[client], reply = desk.answer(
                self.sessions[client], data, lambda: self.updates[client]
            )
        except WireError as error:
            return desk.refusal(self.server.state.round, error)
        return reply

    def round(self, tamper: Tamper = lambda kind, client, reply: reply) -> RoundRecord:
        self.asked, self.heard = {}, {}

        def send(messages: Mapping[int, bytes]) -> dict[int, bytes]:
            kind = kind_of(next(iter(messages.values())))
            replies = {k: tamper(kind, k, self.answer(k, data)) for k, data in messages.items()}
            self.asked[kind] = messages
            self.heard[kind] = {k: reply for k, reply in replies.items() if reply is not None}
            return self.heard[kind]

        return run_round([self.server], send)[0]

    def mean(self, without: tuple[int, ...] = ()) -> torch.Tensor:
        """The plain weighted mean update of all the others, float64."""
        living = [k for k in self.updates if k not in without]
        total = sum(self.samples[k] for k in living)
        return sum(
            (self.updates[k].double() * (self.samples[k] / total) for k in living), torch.zeros(ENTRIES)
        )

    def missed(self, record: RoundRecord, without: tuple[int, ...] = ()) -> float:
        """By how much the server's step misses that mean, in multiples of the stated error: at most 1 but
        for the float32 values that it is kept in."""
        assert record.secure is not None
        share = sum(self.samples[k] for k in self.updates if k not in without) / sum(self.samples.values())
        stated = record.secure.living * record.secure.step / 2 / share
        return float((self.server.state.master - self.mean(without)).abs().max()) / (stated + 2.0**-25)
