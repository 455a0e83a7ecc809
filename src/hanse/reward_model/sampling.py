"""Which clients train in a round: a group uniformly, then a client in it. Pure functions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def chances(posteriors_KC: Array) -> Array:
    """p_k = (1/C) sum_c q_kc / sum_j q_jc, shape (K,), over the C groups that have anybody."""
    shares_KC = _within(posteriors_KC)
    chances_K: Array = shares_KC.mean(1)
    return chances_K


def draw_clients(posteriors_KC: Array, count: int, rng: np.random.Generator) -> dict[int, int]:
    """How often each client counts in a round of `count` slots; those drawn not at all are left out.

    Each group has count / C slots, a remainder goes to groups by chance. Within a group slots are dealt
    systematically, so a client's number of slots is its expectation rounded down or up: as many different
    clients train as can, and those of a small group count more than once. With one group this is a uniform
    draw without repetition.
    """
    shares_KC = _within(posteriors_KC)
    groups = shares_KC.shape[1]
    slots_C = _dealt(np.full(groups, count / groups), rng)
    drawn: Counter[int] = Counter()
    for c, slots in enumerate(slots_C):
        for k, times in enumerate(_dealt(shares_KC[:, c] * slots, rng)):
            drawn[k] += times
    return {k: drawn[k] for k in sorted(drawn) if drawn[k]}


def _within(posteriors_KC: Array) -> Array:
    """Each group's distribution over clients; groups with nobody are left out."""
    totals_C = posteriors_KC.sum(0)
    alive_C = totals_C > 0
    shares: Array = posteriors_KC[:, alive_C] / totals_C[alive_C]
    return shares


def _dealt(expected_N: Array, rng: np.random.Generator) -> list[int]:
    """Whole numbers with these expectations, each rounded down or up, and the same sum (Madow's method)."""
    order = rng.permutation(len(expected_N))
    edges = np.cumsum(np.concatenate([[0.0], expected_N[order]]))
    edges[-1] = round(edges[-1])
    points = np.floor(edges + rng.random() * (1 - 1e-9) + 1e-9)
    counts = np.zeros(len(expected_N), dtype=np.int64)
    counts[order] = np.diff(points).astype(np.int64)
    return [int(n) for n in counts]
