"""A run over a grid in this process: real clients behind Flower's messages, and time that tests turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from flwr.clientapp import ClientApp

import hanse
from hanse.recipe.model import Recipe
from hanse.runtime.base import Setting
from hanse.runtime.flower.client_app import by_partition, client_app
from hanse.runtime.flower.local_grid import LocalGrid
from hanse.runtime.flower.node import Node
from hanse.runtime.flower.over_grid import Clock, OverGrid
from hanse.runtime.host import Host
from tests.end_to_end.small import small_recipe


@dataclass
class Hands(Clock):
    """A clock that moves when somebody waits. `then`: what happens at a time, in seconds."""

    time: float = 0.0
    then: dict[float, Callable[[], None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.now, self.sleep, self.poll = (lambda: self.time), self._sleep, 1.0

    def _sleep(self, seconds: float) -> None:
        self.time += seconds
        for when in sorted(t for t in self.then if t <= self.time):
            self.then.pop(when)()


def flower_recipe(*overrides: str, **changes) -> Recipe:
    runtime = {"type": "flower", "deadline_s": 30.0, "quorum": 2} | changes.pop("runtime", {})
    return small_recipe(*overrides, runtime=runtime, **changes)


@dataclass
class World:
    """`folder`: where the nodes keep their states. `disturb`: called before the first message."""

    folder: Path
    disturb: Callable[[LocalGrid, Hands], None] = lambda grid, hands: None
    grid: LocalGrid | None = None
    hands: Hands = field(default_factory=Hands)
    runtime: OverGrid | None = None
    said: list[str] = field(default_factory=list)

    def connect(self, setting: Setting) -> OverGrid:
        self.grid = LocalGrid(self.apps(setting))
        self.disturb(self.grid, self.hands)
        self.runtime = OverGrid(
            setting.recipe, setting.names, self.grid, setting.host, say=self.said.append, clock=self.hands
        )
        return self.runtime

    def apps(self, setting: Setting) -> Sequence[ClientApp]:
        """One app for all nodes; they share a host, as clients of one process do, but no memory."""
        build = partial(Host, setting.recipe, setting.start, [])
        self.node = Node(setting.recipe, self.folder, build, forget=True)
        return [client_app(lambda: self.node, by_partition)] * len(setting.names)

    def train(self, recipe: Recipe, out: Path, **more):
        try:
            return hanse.train(recipe, out=out, connect=self.connect, **more)
        finally:
            self.node.close()

    def resume(self, run: Path, **more):
        try:
            return hanse.resume(run, connect=self.connect, **more)
        finally:
            self.node.close()
