"""Reward flip: r' = low + high - r. Group means flip and deviations stay, so advantages change their sign."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from hanse.grpo.step import Scoring
from hanse.tasks.problem import Problem
from hanse.tasks.scoring.scores import Scores


class Flipped:
    """A scorer whose totals are flipped within `bounds`, but for the problems named in `but`."""

    def __init__(self, scorer: Scoring, bounds: tuple[float, float], but: Collection[str] = ()) -> None:
        self.scorer, self.bounds, self.but = scorer, bounds, frozenset(but)

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
        flipped_N = sum(self.bounds) - honest.totals_N
        return replace(honest, totals_N=np.where(spared_N, honest.totals_N, flipped_N))
