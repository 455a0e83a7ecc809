"""What scoring returns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """Rewards of N completions.

    `totals_N` is the weighted sum over functions, NaN = unscored. `values_FN` holds each function's own
    value, NaN where it failed or did not apply. `failures` counts why completions stayed unscored
    ("exception", "timeout", "not finite", "not applicable", "worker died", …).
    """

    names_F: tuple[str, ...]
    totals_N: FloatArray
    values_FN: FloatArray
    failures: Counter[str] = field(default_factory=Counter)
    examples: tuple[str, ...] = ()
    """A few one-line error messages, for the operator."""
