"""A federated round of K tiny clients: side by side in two processes against one after the other.

    python benchmarks/federated_round.py [--clients 8] [--repeats 7] [--out benchmarks/results]

Also resident memory against K, in one process: one frozen base, so that only the trainable copies grow.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from hanse.recipe.load import load_recipe
from hanse.recipe.model import Recipe

RECIPE = Path(__file__).parent.parent / "recipes" / "quickstart.toml"


def recipe_for(clients: int, workers: int, *overrides: str) -> Recipe:
    fixed = [f"partition.clients={clients}", 'partition.by="iid"', f"runtime.workers={workers}"]
    return load_recipe(RECIPE, [*fixed, "runtime.threads=1", *overrides])


def broadcasts(recipe: Recipe, clients: int) -> dict[int, bytes]:
    """The opening message of round 1, the policy as built."""
    from hanse.federation.server import Server, ServerState
    from hanse.federation.wire.layout import Layout
    from hanse.policy.build import build_policy

    parameters = build_policy(recipe.policy, recipe.seed).parameters
    layout = Layout(parameters.names, parameters.shapes, "float32")
    state = ServerState(parameters.master.clone())
    return Server(recipe.federation, layout, list(range(clients)), state).open_round()


def measure(clients: int, repeats: int) -> dict[str, list[float]]:
    """Seconds of a round for both runtimes, interleaved."""
    from hanse.federation.messages import Broadcast
    from hanse.runtime.host import Host
    from hanse.runtime.local import InTurn
    from hanse.runtime.pool import ProcessPool

    recipe = recipe_for(clients, 2)
    message = broadcasts(recipe, clients)[0]
    seconds: dict[str, list[float]] = {"in turn": [], "side by side": []}
    pool = ProcessPool(recipe, None, clients)
    with closing(pool), closing(InTurn(Host(recipe, None, list(range(clients))))) as turn:
        pool.wait_ready()
        for number in range(1, repeats + 2):
            opened = Broadcast.from_bytes(message, max_bytes=len(message))
            data = replace(opened, round=number).to_bytes()
            uploads = {}
            for name, runtime in (("in turn", turn), ("side by side", pool)):
                start = time.perf_counter()
                uploads[name] = runtime.exchange(dict.fromkeys(range(clients), data))
                seconds[name].append(time.perf_counter() - start)
            same = all(uploads["in turn"][k][0] == uploads["side by side"][k][0] for k in range(clients))
            assert same, "the two runtimes disagree"
    return {name: values[1:] for name, values in seconds.items()}


def resident_memory(clients: int) -> float:
    """MiB of a fresh process that has trained one round of `clients` clients in turn."""
    command = [sys.executable, __file__, "--memory-of", str(clients)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def print_memory(clients: int) -> None:
    from hanse.runtime.host import Host
    from hanse.runtime.local import InTurn

    recipe = recipe_for(clients, 1)
    with closing(InTurn(Host(recipe, None, list(range(clients))))) as runtime:
        runtime.exchange(broadcasts(recipe, clients))
        status = Path("/proc/self/status").read_text()
        print(int(status.split("VmRSS:")[1].split()[0]) / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--memory-of", type=int)
    arguments = parser.parse_args()
    if arguments.memory_of:
        print_memory(arguments.memory_of)
        return
    seconds = measure(arguments.clients, arguments.repeats)
    ours, peer = (statistics.median(seconds[name]) for name in ("side by side", "in turn"))
    memory = {k: resident_memory(k) for k in (1, 2, 4, 8, 16)}
    ratio = peer / ours
    name = f"round of {arguments.clients} tiny clients"
    case = {"name": name, "ours": ours, "peer": peer, "ratio": ratio}
    from hanse.runs.environment import environment

    result = {
        "cases": [case],
        "seconds": seconds,
        "resident_mib_by_clients": memory,
        "machine": environment(),
    }
    print(f"side by side {ours:.3f} s, in turn {peer:.3f} s: {ratio:.2f} times (target 1.4)")
    for k, mib in memory.items():
        print(f"{k:3d} clients: {mib:.0f} MiB resident")
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "federated_round.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
