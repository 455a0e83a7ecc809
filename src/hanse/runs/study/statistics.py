"""Means, intervals and paired comparisons: pure functions of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hanse.runs.study.student_t import quantile, two_sided_p

Key = tuple[int, int | None]

RESAMPLES = 4000
_TWO_SIDED, _ONE_SIDED = 0.975, 0.95


@dataclass(frozen=True)
class Summary:
    """A sample's mean, standard deviation (n - 1) and 95 % t-interval; None where n does not allow it."""

    n: int
    mean: float | None
    sd: float | None
    interval: tuple[float, float] | None

    def to_json(self) -> dict[str, Any]:
        interval = None if self.interval is None else list(self.interval)
        return {"n": self.n, "mean": self.mean, "sd": self.sd, "interval": interval}


def summarise(values: Sequence[float]) -> Summary:
    n = len(values)
    if n == 0:
        return Summary(0, None, None, None)
    mean = math.fsum(values) / n
    if n == 1:
        return Summary(1, mean, None, None)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = quantile(_TWO_SIDED, n - 1) * sd / math.sqrt(n)
    return Summary(n, mean, sd, (mean - half, mean + half))


def paired(first: Mapping[Key, float], second: Mapping[Key, float]) -> dict[Key, float]:
    """first - second wherever both have a value."""
    return {key: first[key] - second[key] for key in first if key in second}


def compare(differences: Mapping[Key, float], rng: np.random.Generator) -> dict[str, Any]:
    """A paired difference as study.json tells it.

    `interval` is the t-interval over all pairs. Pairs that share a seed or a start are not independent: with
    several starts (and seeds) `bootstrap` resamples both, and `lower_bound` and `p` are the more cautious of
    the two ways.
    """
    values = list(differences.values())
    summary = summarise(values)
    found = summary.to_json() | {"lower_bound": lower_bound(values), "p": t_test(values)}
    resampled = two_way_bootstrap(differences, rng)
    if resampled is None or found["p"] is None:
        return found | {"bootstrap": None}
    found["lower_bound"] = min(found["lower_bound"], resampled["lower_bound"])
    found["p"] = max(found["p"], resampled["p"])
    return found | {"bootstrap": resampled}


def lower_bound(values: Sequence[float]) -> float | None:
    """One-sided 95 % lower confidence bound of the mean."""
    summary = summarise(values)
    if summary.mean is None or summary.sd is None:
        return None
    return summary.mean - quantile(_ONE_SIDED, summary.n - 1) * summary.sd / math.sqrt(summary.n)


def t_test(values: Sequence[float]) -> float | None:
    """Two-sided p-value of a mean of zero; None for fewer than two values."""
    summary = summarise(values)
    if summary.mean is None or summary.sd is None:
        return None
    if summary.sd == 0:
        return 1.0 if summary.mean == 0 else 0.0
    return two_sided_p(summary.mean / (summary.sd / math.sqrt(summary.n)), summary.n - 1)


def two_way_bootstrap(differences: Mapping[Key, float], rng: np.random.Generator) -> dict[str, Any] | None:
    """Seeds and starts drawn anew, each with replacement; None unless there are several of both."""
    seeds = sorted({seed for seed, _ in differences})
    starts = sorted({start for _, start in differences if start is not None})
    if len(seeds) < 2 or len(starts) < 2:
        return None
    table = np.full((len(seeds), len(starts)), np.nan)
    for (seed, start), value in differences.items():
        if start is not None:
            table[seeds.index(seed), starts.index(start)] = value
    rows = rng.integers(len(seeds), size=(RESAMPLES, len(seeds), 1))
    columns = rng.integers(len(starts), size=(RESAMPLES, 1, len(starts)))
    drawn = table[rows, columns].reshape(RESAMPLES, -1)
    drawn = drawn[~np.isnan(drawn).all(1)]
    means = np.nanmean(drawn, axis=1)
    low, high, bound = np.quantile(means, [0.025, 0.975, 0.05])
    tail = min(int((means <= 0).sum()), int((means >= 0).sum()))
    p = min(1.0, 2 * (tail + 1) / (len(means) + 1))
    return {"interval": [float(low), float(high)], "lower_bound": float(bound), "p": p}


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment; None stays None and counts for nothing."""
    known = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, i) in enumerate(known):
        highest = max(highest, min(1.0, (len(known) - rank) * p))
        adjusted[i] = highest
    return adjusted


def rounds_to(curve: Sequence[tuple[int, float]], target: float) -> int | None:
    """The first round whose validation accuracy reaches `target`."""
    return next((number for number, accuracy in curve if accuracy >= target), None)


def trial_score(curve: Sequence[tuple[int, float]], last: int = 3) -> float | None:
    """Mean of the last validation accuracies after training began; one alone would be noise."""
    late = [accuracy for number, accuracy in curve if number > 0][-last:]
    return math.fsum(late) / len(late) if late else None
