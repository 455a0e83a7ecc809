"""Field cases F-4, F-6, F-9 for real: a server and three clients in processes of their own, over TLS.

One client is killed in mid-round, one sends garbage, and the server is killed and resumed: the result is that
of a run in which only the garbage happened.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from flwr.app import Message
from flwr.clientapp import ClientApp

from hanse.recipe.load import dump_recipe
from hanse.recipe.model import Recipe
from hanse.runs.api import Run
from hanse.runs.folder import RunFolder
from hanse.runtime.flower.agreement import terms
from hanse.runtime.flower.envelope import Answer, answered, introduce
from hanse.runtime.flower.joining import Joined
from hanse.runtime.flower.keys import KeyFolder, make_client_key, make_server_keys
from tests.runtime.flower.world import World, flower_recipe

NAMES = ("client-1", "client-2", "client-3")
RUNTIME = {"quorum": 2, "patience": 50, "deadline_s": 60.0}
RECIPE = flower_recipe(
    rounds=5, runtime=RUNTIME, partition={"clients": 3, "by": "iid"}, evaluation={"every": 5}
)


def garbage(over: threading.Event | None = None) -> ClientApp:
    """The third client: honest about who it is, and nothing else."""
    app = ClientApp()

    @app.train("exchange")
    def _exchange(message, context):
        return Message(answered(Answer(b"garbage" * 20)), reply_to=message)

    @app.query("hello")
    def _hello(message, context):
        return Message(introduce({"client": 2, "terms": terms(RECIPE)}), reply_to=message)

    @app.query("farewell")
    def _farewell(message, context):
        over.set()
        return Message(introduce({"client": 2}), reply_to=message)

    return app


class Town:
    """Processes in groups of their own, all of them gone at the end. `hosts`: names and addresses of the
    server; `inside`: of a party, what its command is run by."""

    def __init__(
        self,
        path: Path,
        recipe: Recipe = RECIPE,
        hosts: Sequence[str] = ("localhost",),
        inside: Callable[[str], Sequence[str]] = lambda party: (),
    ) -> None:
        self.inside = inside
        self.path, self.keys = path, KeyFolder(path / "keys")
        self.groups: list[subprocess.Popen[bytes]] = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])
        make_server_keys(self.keys, list(hosts))
        for name in NAMES:
            make_client_key(self.keys, name)
        self.recipe = path / "recipe.toml"
        self.recipe.write_text(dump_recipe(recipe))

    def start(self, *words: str, party: str = "server") -> subprocess.Popen[bytes]:
        with (self.path / f"{len(self.groups)}-{words[0]}.log").open("wb") as log:
            command = [*self.inside(party), sys.executable, "-m", "hanse", *words]
            process = subprocess.Popen(
                command, cwd=self.path, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self.groups.append(process)
        return process

    def serve(self, address: str = "127.0.0.1") -> subprocess.Popen[bytes]:
        keys = str(self.keys.path)
        return self.start("serve", str(self.recipe), "--keys", keys, "--host", address, "--port", self.port)

    def join(self, name: str, host: str = "localhost") -> subprocess.Popen[bytes]:
        server = ("--server", f"{host}:{self.port}", "--recipe", str(self.recipe))
        return self.start("join", *server, "--client", name, "--keys", str(self.keys.path), party=name)

    def join_with_garbage(self) -> threading.Thread:
        authority, key = self.keys.authority.read_bytes(), self.keys.client_key("client-3")
        joined = Joined(f"localhost:{self.port}", authority, key, 2, 1 << 24, 120.0, lambda text: None)
        thread = threading.Thread(target=joined.run, args=(garbage(joined.over),), daemon=True)
        thread.start()
        return thread

    def until(self, what: Callable[[], bool]) -> None:
        for _ in range(3000):
            if what():
                return
            time.sleep(0.02)
        raise AssertionError("\n".join(log.read_text() for log in sorted(self.path.glob("*.log"))))

    def seen(self, pattern: str) -> Callable[[], bool]:
        return lambda: any(self.path.glob(pattern))

    def alive(self) -> list[int]:
        """Process groups in which anything still runs."""
        left = []
        for process in self.groups:
            try:
                os.killpg(process.pid, 0)
                left.append(process.pid)
            except ProcessLookupError:
                continue
        return left

    def end(self) -> None:
        for group in self.alive():
            os.killpg(group, signal.SIGKILL)


@pytest.fixture
def town(tmp_path):
    town = Town(tmp_path)
    yield town
    town.end()


@pytest.mark.slow
def test_f4_kills_change_nothing_and_leave_nothing(town, tmp_path):
    server, first, second = town.serve(), town.join("client-1"), town.join("client-2")
    third = town.join_with_garbage()
    town.until(town.seen("nodes/client-2/*/client-0001/round-000001.safetensors"))
    os.kill(second.pid, signal.SIGKILL)
    second.wait()
    second = town.join("client-2")
    town.until(town.seen("runs/*/rounds/000003"))
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    server = town.start("resume", "runs/small-001")
    assert [process.wait(120) for process in (server, first, second)] == [0, 0, 0]
    third.join(10)
    assert not third.is_alive()
    town.until(lambda: not town.alive())  # reward processes end with their parents

    run = Run(town.path / "runs" / "small-001", RunFolder(town.path / "runs" / "small-001").summary())
    world = World(tmp_path / "undisturbed")
    world.disturb = lambda grid, hands: grid.apps.__setitem__(1003, garbage())
    calm = world.train(RECIPE, tmp_path)
    assert run.summary["policy_sha256"] == calm.summary["policy_sha256"]
    assert run.summary["rounds"] == 5
    assert run.summary["counters"]["refused_uploads"] >= 1
    assert [row["clients/client-2/weight"] > 0 for row in run.metrics("round")[1:]] == [True] * 5
    for name in (".flwr", "nodes/client-1/.flwr"):
        assert not (town.path / name).exists()
