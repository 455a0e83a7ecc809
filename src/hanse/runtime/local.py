"""All clients in this process, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from hanse.grpo.evaluation import EvaluationJob, LevelResult
from hanse.runtime.base import Answer
from hanse.runtime.host import Host


class InTurn:
    """The plain runtime: no process beside this one, but for reward functions."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def exchange(self, messages: Mapping[int, bytes]) -> dict[int, Answer]:
        return {client: self.host.answer(client, data) for client, data in messages.items()}

    def late(self) -> dict[int, bytes]:
        return {}

    def notices(self) -> list[str]:
        return []

    def evaluate(self, values: Tensor, jobs: Sequence[EvaluationJob]) -> list[LevelResult]:
        return [self.host.evaluate(values, job) for job in jobs]

    def personal(self) -> dict[int, Tensor]:
        return {client: torch.from_numpy(own) for client, own in self.host.personal().items()}

    def save(self, folder: Path) -> None:
        self.host.save(folder)

    def load(self, folder: Path) -> None:
        self.host.load(folder)

    def counters(self) -> dict[str, int]:
        return self.host.counters()

    def close(self) -> None:
        self.host.close()
