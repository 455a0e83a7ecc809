"""The stream of problems that a client trains on."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.randomness import derive_seed, generator
from hanse.tasks.problem import Problem


class Draw:
    """Draws a client's problems epoch after epoch, from a cursor on: the number drawn so far."""

    def __init__(self, problems: Sequence[Problem], seed: int, client: int, cursor: int) -> None:
        self.problems, self.seed, self.client, self.cursor = problems, seed, client, cursor
        self._epoch, self._order = -1, list[int]()

    def __call__(self, count: int) -> tuple[list[Problem], list[int]]:
        """Problems, and the seed of each one's random stream."""
        problems, seeds = [], []
        for _ in range(count):
            epoch, place = divmod(self.cursor, len(self.problems))
            problems.append(self.problems[self.order(epoch)[place]])
            seeds.append(derive_seed(self.seed, "sample", self.client, self.cursor))
            self.cursor += 1
        return problems, seeds

    def order(self, epoch: int) -> list[int]:
        """The order in which epoch `epoch` visits the problems."""
        if epoch != self._epoch:
            shuffled = generator(self.seed, "order", self.client, epoch).permutation(len(self.problems))
            self._epoch, self._order = epoch, shuffled.tolist()
        return self._order
