"""Clients in Flower's simulation engine: virtual nodes in Ray's processes on this machine.

The engine runs in a thread beside the run and lends it its grid. Clients' states are written into the run's
checkpoints, as those of local clients are.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from hanse.errors import RunError
from hanse.recipe.model import Recipe
from hanse.runtime.base import Setting
from hanse.runtime.flower import require_flower
from hanse.runtime.flower.client_app import by_partition, client_app
from hanse.runtime.flower.node import Node
from hanse.runtime.flower.over_grid import Clock, OverGrid
from hanse.runtime.host import Host

_NODES = ".nodes.tmp"
"""In the run folder; what a killed run left of it is cleared away by the next sitting."""
_START_S, _END_S = 120.0, 30.0
_here: dict[str, Node] = {}
"""The node of this process, by its folder: Flower hands a process the messages of any client."""


def connect(setting: Setting) -> Simulated:
    """Raises RecipeError where Flower or Ray is missing, RunError where the engine does not start."""
    require_flower("runtime.type", simulation=True)
    return Simulated(setting)


class Simulated(OverGrid):
    """A federation in the simulation engine."""

    def __init__(self, setting: Setting) -> None:
        self.nodes = setting.folder / _NODES
        self.nodes.mkdir(exist_ok=True)
        os.environ["FLWR_HOME"] = str(self.nodes / ".flwr")
        recipe, document = setting.recipe, setting.recipe.model_dump(mode="json")
        app = client_app(partial(node_here, document, setting.start, self.nodes), by_partition)
        self._engine = Engine(app, len(setting.names), recipe)
        super().__init__(
            recipe, setting.names, self._engine.grid, setting.host, say=setting.say, clock=Clock(poll=0.02)
        )

    def save(self, folder: Path) -> None:
        super().save(folder)
        for file in sorted((self.nodes / self.token).rglob("*.safetensors")):
            shutil.copyfile(file, folder / f"{file.parent.name}-{file.name}")

    def load(self, folder: Path) -> None:
        super().load(folder)
        shutil.rmtree(self.nodes / self.token, ignore_errors=True)
        for file in sorted(folder.glob("client-*-round-*.safetensors")):
            client, _, rest = file.name.partition("-round-")
            target = self.nodes / self.token / client / f"round-{rest}"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)

    def close(self) -> None:
        self._engine.close()
        shutil.rmtree(self.nodes, ignore_errors=True)


class Engine:
    """The engine in a thread of its own, until `close`. `grid` is the one that it gave its ServerApp."""

    def __init__(self, app: ClientApp, clients: int, recipe: Recipe) -> None:
        for name in ("flwr", "ray"):
            logging.getLogger(name).setLevel(logging.ERROR)
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._grids: Queue[Grid] = Queue()
        self._over, self._failed = threading.Event(), list[BaseException]()
        self._thread = threading.Thread(target=self._run, args=(app, clients, recipe), daemon=True)
        self._thread.start()
        self.grid = self._wait()

    def _run(self, app: ClientApp, clients: int, recipe: Recipe) -> None:
        server = ServerApp()

        @server.main()
        def _lend(grid: Grid, context: Context) -> None:
            self._grids.put(grid)
            self._over.wait()

        try:
            run_simulation(server, app, clients, backend_config=resources(recipe, clients))
        except BaseException as error:  # noqa: BLE001 - told to the run, in `_wait`
            self._failed.append(error)

    def _wait(self) -> Grid:
        waited = 0.0
        while waited < _START_S and self._thread.is_alive():
            try:
                return self._grids.get(timeout=0.5)
            except Empty:
                waited += 0.5
        self.close()
        why = f": {self._failed[0]}" if self._failed else ""
        raise RunError(f"runtime.type: Flower's simulation engine did not start{why}.")

    def close(self) -> None:
        self._over.set()
        self._thread.join(_END_S)


def resources(recipe: Recipe, clients: int) -> dict[str, Any]:
    """What the engine may take: as many clients at a time as `runtime.workers`, each on `runtime.threads`."""
    threads, workers = recipe.runtime.threads, min(recipe.runtime.workers, clients)
    return {
        "init_args": {"num_cpus": threads * workers, "include_dashboard": False, "log_to_driver": False},
        "client_resources": {"num_cpus": threads, "num_gpus": 0.0},
    }


def node_here(document: dict[str, Any], start: Path | None, folder: Path) -> Node:
    """This process's node, built once: Flower calls the app anew for every message."""
    key = str(folder)
    if key not in _here:
        recipe = Recipe.model_validate(document)
        build: Callable[[], Host] = partial(Host, recipe, start, [], None, folder / "private")
        _here[key] = Node(recipe, folder, build, forget=True)
    return _here[key]
