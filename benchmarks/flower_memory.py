"""Memory and time of one large update over the real link: a server and a client in two processes, TLS.

    python benchmarks/flower_memory.py [--values 134515008] [--out benchmarks/results]

The server sends dense bfloat16 values and the client sends as many back, on loopback. Nothing trains: what is
measured is what messages cost on top: the largest resident set less what the process had before.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from flwr.app import Message

from hanse.federation.messages import max_message_bytes
from hanse.runtime.flower.envelope import EXCHANGE, Answer, answered, ask, read_answer, read_asked
from hanse.runtime.flower.keys import KeyFolder, make_client_key, make_server_keys
from hanse.runtime.flower.private.superlink import SuperLink
from hanse.runtime.flower.private.supernode import Connection, LostError
from hanse.runtime.flower.serving import listen

TOKEN, TTL_S = "0" * 32, 600.0


def peak() -> int:
    """Bytes of the largest resident set so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def answer_once(address: str, keys: Path, limit: int) -> dict[str, int]:
    """A client: takes one message, and sends its frame back."""
    folder, before = KeyFolder(keys), peak()
    connection = Connection(
        address, folder.authority.read_bytes(), folder.client_key("north"), known=True, max_bytes=limit
    )
    while (message := connection.receive()) is None:
        time.sleep(0.05)
    frame, _ = read_asked(message.content)
    connection.send(Message(answered(Answer(bytes(frame))), reply_to=message))
    connection.close()
    return {"before": before, "peak": peak() - before}


def patient_client(address: str, keys: Path, limit: int) -> dict[str, int]:
    for _ in range(200):
        try:
            return answer_once(address, keys, limit)
        except LostError as error:
            if "refused" not in str(error):
                raise
            time.sleep(0.05)
    raise RuntimeError("the server does not begin")


def measured(values: int) -> dict[str, object]:
    limit = max_message_bytes(values, "bfloat16")
    with tempfile.TemporaryDirectory() as scratch:
        folder = KeyFolder(Path(scratch) / "keys")
        make_server_keys(folder, ["localhost"])
        make_client_key(folder, "north")
        listening = listen("127.0.0.1", 0)
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        certificate = (str(folder.certificate[0]), str(folder.certificate[1]))
        link = SuperLink(listening, [folder.client_public("north")], certificate)
        link.guard.allow(limit)
        command = [sys.executable, __file__, "--client", address, "--keys", str(folder.path)]
        child = subprocess.Popen([*command, "--values", str(values)], stdout=subprocess.PIPE)
        while not link.grid.get_node_ids():
            if child.poll() is not None:
                raise RuntimeError("the client ended before it came")
            time.sleep(0.05)
        frame, before = os.urandom(2 * values), peak()
        began = time.monotonic()
        (name,) = link.grid.push_messages(
            [Message(ask(frame, TOKEN), dst_node_id=link.nodes[0], message_type=EXCHANGE, ttl=TTL_S)]
        )
        while not (replies := [r for r in link.grid.pull_messages([name]) if r.has_content()]):
            if child.poll():
                raise RuntimeError(f"the client ended with {child.returncode}")
            time.sleep(0.1)
        same = read_answer(replies[0].content, max_bytes=limit).frame == frame
        seconds, server = time.monotonic() - began, peak() - before
        client = json.loads(child.communicate()[0])
        link.close()
    return {
        "values": values,
        "message_bytes": 2 * values,
        "identical": same,
        "seconds": seconds,
        "server_peak_bytes": server,
        "client_peak_bytes": client["peak"],
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=134_515_008, help="those of SmolLM2-135M")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--client", help=argparse.SUPPRESS)
    parser.add_argument("--keys", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        print(
            json.dumps(
                patient_client(options.client, options.keys, max_message_bytes(options.values, "bfloat16"))
            )
        )
        return
    found = measured(options.values)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "flower_memory.json").write_text(json.dumps(found, indent=2) + "\n")
    size = 2 * options.values
    print(f"{size / 1e6:.0f} MB each way, identical: {found['identical']}, {found['seconds']:.1f} s")
    for end in ("server", "client"):
        most = found[f"{end}_peak_bytes"]
        print(f"{end}: {most / 1e9:.2f} GB on top, {most / size:.1f} times the message")


if __name__ == "__main__":
    main()
