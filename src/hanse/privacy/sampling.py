"""Poisson sampling: every problem decides for itself whether it is in, so a batch has no fixed size."""

from __future__ import annotations

import numpy as np

from hanse.privacy.noise import Stream


def poisson_sample(stream: Stream, problems: int, rate: float) -> list[int]:
    """Places of those among `problems` that are in, each with probability `rate`, in order; perhaps none.

    It is what the accountants analyse. A shuffled order cut into batches of one size is not.
    """
    return np.flatnonzero(stream.uniform(problems) < rate).tolist()
