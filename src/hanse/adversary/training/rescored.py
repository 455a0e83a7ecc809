"""A liar's own scorer: honest rewards, changed on the way to its learner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hanse.grpo.step import Scoring
from hanse.tasks.problem import Problem
from hanse.tasks.scoring.scores import Scores


class Rescored(ABC):
    """A scorer whose totals are what `lie` makes of them, but for the problems named in `but`. `bounds`: of
    honest rewards."""

    def __init__(self, scorer: Scoring, bounds: tuple[float, float], but: Collection[str] = ()) -> None:
        self.scorer, self.bounds, self.but = scorer, bounds, frozenset(but)

    @abstractmethod
    def lie(
        self, totals_N: npt.NDArray[np.float64], completions_N: Sequence[str]
    ) -> npt.NDArray[np.float64]: ...

    def score(
        self,
        problems_N: Sequence[Problem],
        completions_N: Sequence[str],
        completion_ids_N: Sequence[list[int]] | None = None,
        *,
        group_size: int | None = None,
    ) -> Scores:
        honest = self.scorer.score(problems_N, completions_N, completion_ids_N, group_size=group_size)
        spared_N = np.array([problem.id in self.but for problem in problems_N], dtype=bool)
        lies_N = self.lie(honest.totals_N, completions_N)
        return replace(honest, totals_N=np.where(spared_N, honest.totals_N, lies_N))
