"""The stream of problems that a client trains on."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from hanse.grpo.allocation import absorbed, probabilities, unseen
from hanse.policy.rollout import Group
from hanse.randomness import derive_seed, generator
from hanse.tasks.problem import Problem


class Draw:
    """Draws a client's problems epoch after epoch, from a cursor on: the number drawn so far.

    `success` is what a draw by predicted variance knows of the problems, shape (N,).
    """

    success: Tensor | None = None

    def __init__(self, problems: Sequence[Problem], seed: int, client: int, cursor: int) -> None:
        self.problems, self.seed, self.client, self.cursor = problems, seed, client, cursor
        self._epoch, self._order = -1, list[int]()

    def __call__(self, count: int) -> tuple[list[Problem], list[int]]:
        """Problems, and the seed of each one's random stream."""
        places = self._places(count)
        drawn = range(self.cursor, self.cursor + count)
        self.cursor += count
        seeds = [derive_seed(self.seed, "sample", self.client, number) for number in drawn]
        return [self.problems[place] for place in places], seeds

    def learn(self, groups: Sequence[Group]) -> None:
        """Take note of scored groups of problems drawn here."""

    def order(self, epoch: int) -> list[int]:
        """The order in which epoch `epoch` visits the problems."""
        if epoch != self._epoch:
            shuffled = generator(self.seed, "order", self.client, epoch).permutation(len(self.problems))
            self._epoch, self._order = epoch, shuffled.tolist()
        return self._order

    def _places(self, count: int) -> list[int]:
        numbers = (divmod(n, len(self.problems)) for n in range(self.cursor, self.cursor + count))
        return [self.order(epoch)[place] for epoch, place in numbers]


class VarianceDraw(Draw):
    """Draws by predicted variance (`grpo.allocation`): different problems at a time, as far as they go."""

    def __init__(
        self, problems: Sequence[Problem], seed: int, client: int, cursor: int, success: Tensor | None
    ) -> None:
        super().__init__(problems, seed, client, cursor)
        self.success = self._known = unseen(len(problems)) if success is None else success
        self._place = {problem.id: i for i, problem in enumerate(problems)}

    def learn(self, groups: Sequence[Group]) -> None:
        places = [self._place[group.problem.id] for group in groups]
        self.success = self._known = absorbed(self._known, places, groups)

    def _places(self, count: int) -> list[int]:
        random = generator(self.seed, "allocation", self.client, self.cursor)
        chances, places = probabilities(self._known).numpy(), list[int]()
        while len(places) < count:
            size = min(count - len(places), len(self.problems))
            places += random.choice(len(self.problems), size, replace=False, p=chances).tolist()
        return places
