"""A runtime some of whose clients lie: it lets them answer, and changes what they say before it is heard.

For studies and tests. The liars collude: they know one another's honest replies and, where the recipe says
so, everybody's; so all replies of an exchange are awaited, in whichever runtime they are made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from torch import Tensor

from hanse.adversary.liars import Ground, Liars, Memory
from hanse.grpo.evaluation import EvaluationJob, LevelResult
from hanse.runtime.base import Answer, Runtime
from hanse.runtime.state import load_tensors, prefixed, save_tensors, unprefixed

FILE = "liars.safetensors"


class Lying:
    """`runtime` with the replies of `liars` replaced. `ground`: what the open round's clients start from."""

    def __init__(self, runtime: Runtime, liars: Liars, ground: Callable[[], tuple[int, Tensor, str]]) -> None:
        self.runtime, self.liars, self._ground = runtime, liars, ground

    def exchange(self, messages: Mapping[int, bytes]) -> dict[int, Answer]:
        answers = self.runtime.exchange(messages)
        replies = {client: data for client, (data, _) in sorted(answers.items())}
        lies = self.liars.rewrite(Ground(*self._ground()), replies)
        return {client: (lies.get(client, data), rows) for client, (data, rows) in answers.items()}

    def late(self) -> dict[int, bytes]:
        return self.runtime.late()

    def notices(self) -> list[str]:
        return self.runtime.notices()

    def evaluate(self, values: Tensor, jobs: Sequence[EvaluationJob]) -> list[LevelResult]:
        return self.runtime.evaluate(values, jobs)

    def personal(self) -> dict[int, Tensor]:
        return self.runtime.personal()

    def save(self, folder: Path) -> None:
        self.runtime.save(folder)
        memory = self.liars.memory
        first = {f"{liar:04d}": update for liar, (_, update) in memory.first.items()}
        bases = {str(number): base for number, base in memory.bases.items()}
        rounds = {f"{liar:04d}": number for liar, (number, _) in memory.first.items()}
        tensors = {**prefixed("first", first), **prefixed("base", bases)}
        save_tensors(folder / FILE, tensors, {"rounds": rounds})

    def load(self, folder: Path) -> None:
        self.runtime.load(folder)
        tensors, fields = load_tensors(folder / FILE)
        first, bases = unprefixed("first", tensors), unprefixed("base", tensors)
        self.liars.memory = Memory(
            first={int(liar): (fields["rounds"][liar], update) for liar, update in first.items()},
            bases={int(number): base for number, base in bases.items()},
        )

    def counters(self) -> dict[str, int]:
        return self.runtime.counters()

    def close(self) -> None:
        self.runtime.close()
