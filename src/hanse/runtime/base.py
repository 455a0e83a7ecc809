"""The seam: where clients run. A runtime carries messages and evaluation jobs, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from hanse.grpo.evaluation import EvaluationJob, LevelResult
from hanse.recipe.model import Recipe

if TYPE_CHECKING:
    from hanse.runtime.host import Host

Answer = tuple[bytes, list[dict[str, float]]]
"""A client's reply and the metrics of its local steps."""


class Runtime(Protocol):
    """Runs clients for the duration of a run; the bits do not depend on which runtime it is."""

    def exchange(self, messages: Mapping[int, bytes]) -> dict[int, Answer]:
        """Each client answers its message."""
        ...

    def late(self) -> dict[int, bytes]:
        """Answers to earlier exchanges that came since the last call, by client, where the recipe weighs
        them: one of each, and the newest."""
        ...

    def notices(self) -> list[str]:
        """In words, who did not answer the exchanges since the last call, and why."""
        ...

    def evaluate(self, values: Tensor, jobs: Sequence[EvaluationJob]) -> list[LevelResult]:
        """Evaluate the given parameter values, flat float32; results in the order of the jobs."""
        ...

    def personal(self) -> dict[int, Tensor]:
        """The entries that each client keeps to itself, by client id; not an exchange of the federation."""
        ...

    def save(self, folder: Path) -> None:
        """Write all clients' states into a checkpoint that is being made."""
        ...

    def load(self, folder: Path) -> None: ...

    def counters(self) -> dict[str, int]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Setting:
    """What a runtime for clients elsewhere is built from.

    `start`: the tiny policy's warmed-up base; `folder`: the run's; `host`: of this process, without clients;
    `say`: takes notes for the person who watches.
    """

    recipe: Recipe
    names: Sequence[str]
    start: Path | None
    folder: Path
    host: Host
    say: Callable[[str], None]


Connect = Callable[[Setting], Runtime]
"""Reaches the clients of a run."""
