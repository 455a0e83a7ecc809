"""Secure sums against a plain mean: bytes and seconds of a round's exchange, without training.

    python benchmarks/secure_aggregation.py [--clients 5 20] [--parameters 107000 1000000] [--repeats 5]

Both sides build, send, read and combine the messages of one round in one process; seconds are those of all
parties together. "A client" is what one client computes, "the server" what the server does.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from hanse.federation.exchange import run_round
from hanse.federation.messages import Broadcast, Payload, Report, Upload
from hanse.federation.records import ServerState
from hanse.federation.secure.server import SecureServer
from hanse.federation.secure.session import Desk, Session
from hanse.federation.server import Server
from hanse.federation.signal import Signal
from hanse.federation.wire.dense import encode_dense
from hanse.federation.wire.frame import kind_of
from hanse.federation.wire.layout import Layout
from hanse.recipe.federation import FederationSpec
from hanse.recipe.secure import Reach

REACH = Reach(0.02, 0.0, 0.0)


@dataclass
class Party:
    """Answers like a client whose update is at hand."""

    id: int
    spec: FederationSpec
    layout: Layout
    update: torch.Tensor
    session: Session | None = None
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.desk = Desk(self.id, self.spec, self.layout)

    def answer(self, data: bytes) -> bytes:
        begun = time.perf_counter()
        try:
            return self._opened(data) if kind_of(data) == "broadcast" else self._asked(data)
        finally:
            self.seconds += time.perf_counter() - begun

    def _opened(self, data: bytes) -> bytes:
        opened = Broadcast.from_bytes(data, max_bytes=1 << 40)
        signal, changed = Signal(0.5, 0.2, 160, 80, 1000), self.layout.numel
        if self.spec.secure.enabled:
            self.session, reply = self.desk.open(Report(opened.round, self.id, opened.base, signal, changed))
            return reply
        payload = Payload("values", encode_dense(self.update, "float32"))
        return Upload(opened.round, self.id, opened.base, "float32", signal, payload, changed).to_bytes()

    def _asked(self, data: bytes) -> bytes:
        self.session, reply = self.desk.answer(self.session, data, lambda: self.update)
        return reply


@dataclass
class Side:
    """`seconds`: medians over rounds, of all parties together and of one client."""

    server: Server
    parties: Mapping[int, Party]
    whole: list[float] = field(default_factory=list)
    client: list[float] = field(default_factory=list)

    def round(self) -> None:
        for party in self.parties.values():
            party.seconds = 0.0
        begun = time.perf_counter()
        (self.record,) = run_round(
            [self.server], lambda sent: {k: self.parties[k].answer(m) for k, m in sent.items()}
        )
        self.whole.append(time.perf_counter() - begun)
        self.client.append(statistics.mean(party.seconds for party in self.parties.values()))
        assert len(self.record.weights) == len(self.parties)

    def told(self) -> dict[str, Any]:
        clients = len(self.parties)
        whole, client = statistics.median(self.whole), statistics.median(self.client)
        return {
            "bytes_up": self.record.bytes_up / clients,
            "bytes_down": self.record.bytes_down / clients,
            "client_seconds": client,
            "server_seconds": whole - clients * client,
        }


def side(clients: int, parameters: int, secure: Mapping[str, Any]) -> Side:
    spec = FederationSpec(weighting="uniform", codec="dense", secure=secure)
    layout, state = Layout(("w",), ((parameters,),), "float32"), ServerState(torch.zeros(parameters))
    ids = list(range(clients))
    make: Callable[..., Server] = SecureServer if spec.secure.enabled else Server
    more = {"reach": REACH} if spec.secure.enabled else {}
    server = make(spec, layout, ids, state, group_size=8, **more)
    draw = torch.Generator().manual_seed(0)
    updates = {k: (torch.rand(parameters, generator=draw) - 0.5) * 0.02 for k in ids}
    return Side(server, {k: Party(k, spec, layout, updates[k]) for k in ids})


def measure(clients: int, parameters: int, degree: int | None, repeats: int) -> dict[str, Any]:
    sides = {
        "ours": side(clients, parameters, {"enabled": True, "neighbours": degree}),
        "peer": side(clients, parameters, {"enabled": False}),
    }
    for _ in range(repeats):
        for one in sides.values():
            one.round()
    ours, peer = (one.told() for one in sides.values())
    ratio = {key: ours[key] / peer[key] for key in ours}
    case = {"clients": clients, "parameters": parameters, "neighbours": degree or min(clients - 1, 30)}
    return {**case, "ours": ours, "peer": peer, "ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[5, 20])
    parser.add_argument("--parameters", type=int, nargs="+", default=[107_136, 1_000_000])
    parser.add_argument("--neighbours", type=int, default=None)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cases = []
    for parameters in arguments.parameters:
        for clients in arguments.clients:
            case = measure(clients, parameters, arguments.neighbours, arguments.repeats)
            cases.append(case)
            ours, peer = case["ours"], case["peer"]
            print(f"{parameters:,} parameters, {clients} clients, each with {case['neighbours']} neighbours")
            for key in ours:
                print(f"  {key:15} {ours[key]:14,.4f} against {peer[key]:14,.4f}: {case['ratio'][key]:.3f}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    machine = {"machine": platform.machine(), "python": platform.python_version(), "torch": torch.__version__}
    document = {"cases": cases, "repeats": arguments.repeats, "threads": 1, **machine}
    (arguments.out / "secure_aggregation.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
