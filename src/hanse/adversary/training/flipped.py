"""Reward flip: r' = low + high - r. Group means flip and deviations stay, so advantages change their sign."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hanse.adversary.training.rescored import Rescored


class Flipped(Rescored):
    """A scorer whose totals are flipped within `bounds`."""

    def lie(self, totals_N: npt.NDArray[np.float64], completions_N: Sequence[str]) -> npt.NDArray[np.float64]:
        return sum(self.bounds) - totals_N
