"""What an attacker's successes prove: a lower bound of epsilon, against the accountant's upper one."""

from __future__ import annotations

import math
from collections.abc import Sequence


def upper_rate(hits: int, trials: int, error: float) -> float:
    """Clopper and Pearson's upper bound of a probability of which `hits` of `trials` were seen: wrong with
    probability `error` at most."""
    if hits >= trials:
        return 1.0
    low, high = hits / trials, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(hits, trials, middle) > error else (low, middle)
    return high


def _at_most(hits: int, trials: int, rate: float) -> float:
    """The probability of `hits` or fewer."""
    if rate >= 1:
        return 0.0
    log, ratio, terms = trials * math.log1p(-rate), math.log(rate) - math.log1p(-rate), [0.0]
    for k in range(1, hits + 1):
        terms.append(terms[-1] + math.log((trials - k + 1) / k) + ratio)
    return math.fsum(math.exp(log + term) for term in terms)


def bound_at(threshold: float, inside: Sequence[float], outside: Sequence[float], delta: float) -> float:
    """The lower bound, at 95 % for this threshold, from scores of runs with the canary and of runs without.

    Of any test, P(accept | in) <= e^eps P(accept | out) + delta, and so for rejections and the other way
    round; each of the two rates is bounded with half of the error.
    """
    best = 0.0
    for these, others in ((inside, outside), (outside, inside)):
        for sign in (1, -1):
            caught = sum(sign * score > sign * threshold for score in these)
            false = sum(sign * score > sign * threshold for score in others)
            least = 1 - upper_rate(len(these) - caught, len(these), 0.025)
            most = upper_rate(false, len(others), 0.025)
            best = max(best, math.log(max(least - delta, 1e-300) / most))
    return best


def lower_bound(inside: Sequence[float], outside: Sequence[float], delta: float) -> float:
    """A 95 % lower bound of epsilon. Half of the scores choose the threshold, the rest is counted."""
    half, other = len(inside) // 2, len(outside) // 2
    places = sorted({*inside[:half], *outside[:other]})
    tried = places[:: max(1, len(places) // 40)] or [0.0]
    first = inside[:half], outside[:other]
    threshold = max(tried, key=lambda place: bound_at(place, *first, delta))
    return bound_at(threshold, inside[half:], outside[other:], delta)
