"""Student's t distribution for whole degrees of freedom, from its finite series (A&S 26.7)."""

from __future__ import annotations

import math

_STEPS = 200


def central(t: float, df: int) -> float:
    """P(|T| ≤ |t|). Raises ValueError where df < 1."""
    if df < 1:
        raise ValueError("needs at least one degree of freedom")
    theta = math.atan(abs(t) / math.sqrt(df))
    sine, square = math.sin(theta), math.cos(theta) ** 2
    odd = df % 2 == 1
    term, total = (math.cos(theta), 0.0) if odd else (1.0, 0.0)
    for k in range((df - 1) // 2 if odd else df // 2):
        total += term
        term *= square * ((2 * k + 2) / (2 * k + 3) if odd else (2 * k + 1) / (2 * k + 2))
    return 2 / math.pi * (theta + sine * total) if odd else sine * total


def two_sided_p(t: float, df: int) -> float:
    return min(1.0, max(0.0, 1 - central(t, df)))


def quantile(probability: float, df: int) -> float:
    """The t with P(T ≤ t) = `probability`, which must lie between 1/2 and 1, exclusive of 1."""
    if not 0.5 <= probability < 1:
        raise ValueError("the probability must lie in [0.5, 1)")
    low, high, wanted = 0.0, 1.0, 2 * probability - 1
    while central(high, df) < wanted:
        high *= 2
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if central(middle, df) < wanted else (low, middle)
    return (low + high) / 2
