"""Peak memory of a server that closes a round, against the number of clients whose uploads lie on disk.

    python benchmarks/aggregation_memory.py [--clients 8 64] [--parameters 8000000] [--out benchmarks/results]

Each number of clients has a process of its own. "Held" is what the uploads would take in memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch


class OnDisk(Mapping[int, bytes]):
    """Uploads by client, read when they are asked for."""

    def __init__(self, folder: Path, clients: int) -> None:
        self.folder, self.clients = folder, clients

    def __getitem__(self, client: int) -> bytes:
        return (self.folder / str(client)).read_bytes()

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.clients))

    def __len__(self) -> int:
        return self.clients


def peak_mib() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measure(clients: int, parameters: int) -> dict[str, Any]:
    from hanse.federation.messages import Broadcast, Payload, Upload
    from hanse.federation.server import Server, ServerState
    from hanse.federation.signal import Signal
    from hanse.federation.wire.dense import encode_dense
    from hanse.federation.wire.layout import Layout
    from hanse.recipe.federation import FederationSpec

    layout = Layout(("w",), ((parameters,),), "float32")
    state = ServerState(torch.zeros(parameters))
    server = Server(FederationSpec(weighting="reward-std"), layout, list(range(clients)), state, group_size=8)
    opened = Broadcast.from_bytes(server.open_round()[0], max_bytes=1 << 40)
    with tempfile.TemporaryDirectory() as name:
        for client in range(clients):
            values = torch.randn(parameters, generator=torch.Generator().manual_seed(client))
            signal = Signal(0.5, 0.1 + client / 1000, 160, 80, 1000)
            payload = Payload("values", encode_dense(values, "float32"))
            upload = Upload(1, client, opened.base, "float32", signal, payload, parameters)
            (Path(name) / str(client)).write_bytes(upload.to_bytes())
        del values, payload, upload
        before = peak_mib()
        record = server.close_round(OnDisk(Path(name), clients))
    assert len(record.weights) == clients
    return {"clients": clients, "before_mib": before, "peak_mib": peak_mib()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[8, 16, 32, 64])
    parser.add_argument("--parameters", type=int, default=8_000_000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.parameters)))
        return
    cases = []
    for clients in arguments.clients:
        command = [sys.executable, __file__, "--one", str(clients), "--parameters", str(arguments.parameters)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        case = json.loads(output.splitlines()[-1])
        case["held_mib"] = clients * arguments.parameters * 4 / 2**20
        cases.append(case)
        peak, held = case["peak_mib"], case["held_mib"]
        print(f"{clients:3d} clients: peak {peak:.0f} MiB (held: {held:.0f} MiB)", flush=True)
    from hanse.runs.environment import environment

    document = {"cases": cases, "parameters": arguments.parameters, "machine": environment()}
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "aggregation_memory.json").write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
