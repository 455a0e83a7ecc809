"""What scoring returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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
    errors: Mapping[str, int] = field(default_factory=dict)
    """A few one-line error messages, for the operator, and how many completions each is about."""
    weights_F: tuple[float, ...] = ()
    """Of each function in the sum."""

    @property
    def examples(self) -> tuple[str, ...]:
        """The messages alone."""
        return tuple(self.errors)


def combine(
    names_F: tuple[str, ...], weights_F: Sequence[float], outcomes_F: Sequence[Outcome], n: int
) -> Scores:
    """Weighted sums over the functions that apply, added in their order.

    A completion on which a function failed, or to which none applies, is unscored. A function of weight 0
    is only reported: it neither scores a completion nor leaves it unscored.
    """
    shape = (len(outcomes_F), n)
    values_FN = np.array([outcome.values for outcome in outcomes_F], dtype=np.float64).reshape(shape)
    finite_FN = np.isfinite(values_FN)
    counted_F = np.array(weights_F) != 0
    with np.errstate(over="ignore", invalid="ignore"):
        totals_N = np.where(finite_FN, np.array(weights_F)[:, None] * values_FN, 0.0).sum(axis=0)
    applies_N = finite_FN[counted_F].any(axis=0)
    failures_F = [_failures(outcome, row) for outcome, row in zip(outcomes_F, finite_FN, strict=True)]
    unscored: dict[int, Failure] = {}
    for counted, failures in zip(counted_F[::-1], failures_F[::-1], strict=True):
        unscored |= failures if counted else {}  # of several failures the first function's is counted
    for i in np.flatnonzero(~applies_N | ~np.isfinite(totals_N)).tolist():
        unscored.setdefault(i, Failure("not finite" if applies_N[i] else "not applicable", ""))
    totals_N[list(unscored)] = np.nan
    counts = Counter(failure.reason for failure in unscored.values())
    values_FN[~finite_FN] = np.nan
    return Scores(names_F, totals_N, values_FN, counts, _errors(names_F, failures_F), tuple(weights_F))


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names of functions, a repeated one numbered: exact, exact#2."""
    times = [list(names[: i + 1]).count(name) for i, name in enumerate(names)]
    return tuple(name if n == 1 else f"{name}#{n}" for name, n in zip(names, times, strict=True))


def _failures(outcome: Outcome, finite_N: npt.NDArray[np.bool_]) -> dict[int, Failure]:
    """Failures by row. NaN or an infinity is one too, unlike None."""
    returned = {i: outcome.values[i] for i in np.flatnonzero(~finite_N).tolist()}
    not_finite = {
        i: Failure("not finite", f"returned {value}") for i, value in returned.items() if value is not None
    }
    return {**not_finite, **outcome.failures}


def _errors(names_F: Sequence[str], failures_F: Sequence[Mapping[int, Failure]]) -> dict[str, int]:
    """The first few distinct failures, each in a line that is safe to print on a terminal, with counts."""
    found = Counter(
        (name, failure)
        for name, failures in zip(names_F, failures_F, strict=True)
        for failure in failures.values()
    )
    errors: Counter[str] = Counter()
    for (name, failure), count in list(found.items())[:_EXAMPLES]:
        line = f"{name}: {failure.reason}: {failure.message}"
        errors["".join(c if c.isprintable() else " " for c in line)] += count
    return dict(errors)
