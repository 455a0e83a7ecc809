"""What scoring returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hanse.tasks.rewards.batch import Failure
from hanse.tasks.scoring.pieces import Outcome

FloatArray = npt.NDArray[np.float64]
_EXAMPLES = 5


@dataclass(frozen=True)
class Scores:
    """Rewards of N completions.

    `totals_N` is the weighted sum over functions, NaN = unscored. `values_FN` holds each function's own
    value, NaN where it failed or did not apply. `failures` counts why completions stayed unscored
    ("exception", "timeout", "not finite", "not applicable", "worker died", …), each completion once.
    """

    names_F: tuple[str, ...]
    totals_N: FloatArray
    values_FN: FloatArray
    failures: Counter[str] = field(default_factory=Counter)
    examples: tuple[str, ...] = ()
    """A few one-line error messages, for the operator."""


def combine(
    names_F: tuple[str, ...], weights_F: Sequence[float], outcomes_F: Sequence[Outcome], n: int
) -> Scores:
    """Weighted sums over the functions that apply, added in their order.

    A completion on which a function failed, or to which none applies, is unscored. A function of weight 0
    is only reported: it neither scores a completion nor leaves it unscored.
    """
    values_FN = np.array([outcome.values for outcome in outcomes_F], dtype=np.float64).reshape(-1, n)
    finite_FN = np.isfinite(values_FN)
    totals_N, applies_N = np.zeros(n), np.zeros(n, dtype=bool)
    unscored: dict[int, Failure] = {}
    seen: dict[str, None] = {}
    for name, weight, outcome, value_N, finite_N in zip(
        names_F, weights_F, outcomes_F, values_FN, finite_FN, strict=True
    ):
        failures = {**_not_finite(outcome, finite_N), **outcome.failures}
        seen.update(dict.fromkeys(_line(name, failure) for failure in failures.values()))
        if weight != 0:
            totals_N += np.where(finite_N, weight * value_N, 0.0)
            applies_N |= finite_N
            unscored = {**failures, **unscored}
    for i in np.flatnonzero(~applies_N).tolist():
        unscored.setdefault(i, Failure("not applicable", ""))
    totals_N[list(unscored)] = np.nan
    for i in np.flatnonzero(np.isinf(totals_N)).tolist():
        unscored[i] = Failure("not finite", "")
        totals_N[i] = np.nan
    counts = Counter(failure.reason for failure in unscored.values())
    return Scores(names_F, totals_N, np.where(finite_FN, values_FN, np.nan), counts, tuple(seen)[:_EXAMPLES])


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names of functions, a repeated one numbered: exact, exact#2."""
    times = [list(names[: i + 1]).count(name) for i, name in enumerate(names)]
    return tuple(name if n == 1 else f"{name}#{n}" for name, n in zip(names, times, strict=True))


def _not_finite(outcome: Outcome, finite_N: npt.NDArray[np.bool_]) -> dict[int, Failure]:
    """Rows on which a function returned NaN or an infinity: a failure, unlike None."""
    rows = np.flatnonzero(~finite_N).tolist()
    return {
        i: Failure("not finite", f"returned {outcome.values[i]}")
        for i in rows
        if outcome.values[i] is not None
    }


def _line(name: str, failure: Failure) -> str:
    """Printable on a terminal whatever a function put into its message."""
    text = f"{name}: {failure.reason}: {failure.message}"
    return "".join(character if character.isprintable() else " " for character in text)
