"""What an attacker's successes prove: a lower bound of epsilon, against the accountant's upper one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


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


@dataclass(frozen=True)
class Rule:
    """Says "with the canary" where sign * score > sign * threshold; `swapped`: proves the loss the other way
    round, from runs without it to runs with it."""

    threshold: float
    sign: int = 1
    swapped: bool = False


def bound_at(rule: Rule, inside: Sequence[float], outside: Sequence[float], delta: float) -> float:
    """The lower bound, at 95 % for this rule, from scores of runs with the canary and of runs without.

    Of any test, P(accept | in) <= e^eps P(accept | out) + delta, and so the other way round; each of the two
    rates is bounded with half of the error.
    """
    these, others = (outside, inside) if rule.swapped else (inside, outside)
    least = 1 - upper_rate(len(these) - _accepted(rule, these), len(these), 0.025)
    most = upper_rate(_accepted(rule, others), len(others), 0.025)
    return max(0.0, math.log(max(least - delta, 1e-300) / most))


def _accepted(rule: Rule, scores: Sequence[float]) -> int:
    return sum(rule.sign * score > rule.sign * rule.threshold for score in scores)


def lower_bound(inside: Sequence[float], outside: Sequence[float], delta: float) -> float:
    """A 95 % lower bound of epsilon. Half of the scores choose the rule, all of it, and the rest is counted:
    the best of several rules on one half would be right less often than each."""
    half, other = len(inside) // 2, len(outside) // 2
    places = sorted({*inside[:half], *outside[:other]})
    tried = places[:: max(1, len(places) // 40)] or [0.0]
    rules = [Rule(place, sign, swapped) for place in tried for sign in (1, -1) for swapped in (False, True)]
    first = inside[:half], outside[:other]
    best = max(rules, key=lambda rule: bound_at(rule, *first, delta))
    return bound_at(best, inside[half:], outside[other:], delta)
