"""Field case F-7 on real networks: each party in a network namespace of its own, over TLS.

One client is behind a slow link, another's link goes down in mid-round and comes up again later: the run goes
on with a quorum, and the client that was cut off takes part again by itself.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hanse.runs.api import Run
from hanse.runs.folder import RunFolder
from tests.cases.test_flower_F4 import NAMES, Town
from tests.runtime.flower.world import flower_recipe

SLOW, CUT = NAMES[1], NAMES[2]
RECIPE = flower_recipe(
    rounds=12,
    runtime={"quorum": 2, "patience": 10, "deadline_s": 8.0, "late": "weigh"},
    partition={"clients": 3, "by": "iid"},
    evaluation={"every": 12},
)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Net:
    """A namespace for each party, and for each client a link of its own to the server's."""

    def __init__(self) -> None:
        self.space = {party: f"hanse-{os.getpid()}-{i}" for i, party in enumerate(("server", *NAMES))}

    def begin(self) -> None:
        for name in self.space.values():
            ip("netns", "add", name)
        for i, client in enumerate(NAMES, 1):
            ours, theirs = ("-n", self.space["server"]), ("-n", self.space[client])
            ip(*ours, "link", "add", f"to-{i}", "type", "veth", "peer", "name", "near")
            ip(*ours, "link", "set", "near", "netns", self.space[client])
            ip(*ours, "address", "add", f"{self.host(client)}/30", "dev", f"to-{i}")
            ip(*theirs, "address", "add", f"10.77.{i}.2/30", "dev", "near")
            ip(*ours, "link", "set", f"to-{i}", "up")
            ip(*theirs, "link", "set", "near", "up")
        for name in self.space.values():
            ip("-n", name, "link", "set", "lo", "up")

    def host(self, client: str) -> str:
        """The server's address as this client reaches it."""
        return f"10.77.{NAMES.index(client) + 1}.1"

    def inside(self, party: str) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.space[party])

    def turn(self, client: str, state: str) -> None:
        """A client's link "up" or "down"."""
        ip("-n", self.space["server"], "link", "set", f"to-{NAMES.index(client) + 1}", state)

    def slow(self, client: str, rate: str) -> None:
        bucket = ("tbf", "rate", rate, "burst", "4kb", "latency", "2s")
        subprocess.run(
            [*self.inside(client), "tc", "qdisc", "add", "dev", "near", "root", *bucket],
            check=True,
            text=True,
        )

    def held_back(self, client: str) -> int:
        """How often a packet of this client had to wait."""
        command = [*self.inside(client), "tc", "-s", "qdisc", "show", "dev", "near"]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = re.search(r"overlimits (\d+)", told)
        assert found is not None, told
        return int(found[1])

    def end(self) -> None:
        for name in self.space.values():
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


@pytest.fixture
def net() -> Iterator[Net]:
    if shutil.which("ip") is None or shutil.which("tc") is None:
        pytest.skip("no iproute2 here: `ip` and `tc` make the networks")
    probe = f"hanse-{os.getpid()}-probe"
    tried = subprocess.run(["ip", "netns", "add", probe], check=False, capture_output=True, text=True)
    subprocess.run(["ip", "netns", "delete", probe], check=False, capture_output=True)
    if tried.returncode != 0:
        pytest.skip(f"network namespaces are not permitted here: {tried.stderr.strip()}")
    net = Net()
    try:
        net.begin()
        yield net
    finally:
        net.end()
    assert not any(Path("/var/run/netns", name).exists() for name in net.space.values())


@pytest.mark.slow
def test_f7_a_slow_and_a_cut_off_client_hold_nobody_up_and_the_latter_comes_back(tmp_path, net):
    town = Town(tmp_path, RECIPE, [net.host(client) for client in NAMES], net.inside)
    try:
        net.slow(SLOW, "400kbit")
        parties = [town.serve("0.0.0.0"), *(town.join(name, net.host(name)) for name in NAMES)]
        town.until(town.seen("runs/*/rounds/000001"))
        net.turn(CUT, "down")
        town.until(town.seen("runs/*/rounds/000002"))
        net.turn(CUT, "up")
        assert [process.wait(120) for process in parties] == [0, 0, 0, 0]
        town.until(lambda: not town.alive())
        assert net.held_back(SLOW) > 0
    finally:
        town.end()
    run = Run(tmp_path / "runs" / "small-001", RunFolder(tmp_path / "runs" / "small-001").summary())
    rounds = run.metrics("round")[1:]
    assert run.summary["rounds"] == 12
    there = [f"clients/{CUT}/weight" in row and f"clients/{CUT}/staleness" not in row for row in rounds]
    assert there[0] and not all(there) and there[-1]
    assert all(f"clients/{NAMES[0]}/weight" in row for row in rounds)
    assert any(f"clients/{SLOW}/weight" in row for row in rounds)
    for name in (".flwr", f"nodes/{CUT}/.flwr"):
        assert not (tmp_path / name).exists()
