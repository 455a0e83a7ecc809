"""Who masks with whom: everybody with everybody, or from some number on a ring with chords (SecAgg+,
Bell et al., CCS 2020), which costs as much for a thousand clients as for thirty."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hanse.randomness import generator

FEWEST = 3
"""Living clients: the sum of two tells each of them the other's update."""
MOST_NEIGHBOURS = 30
"""Where a recipe names no number."""


def neighbours(clients: Sequence[int], degree: int | None, *parts: int | str) -> dict[int, tuple[int, ...]]:
    """Each client's neighbours, in id order, without itself: all others, or the `degree` (even) nearest on a
    ring in an order drawn from `parts`. Nothing of this is secret. None: all, and 30 of more than 31."""
    count, degree = len(clients), MOST_NEIGHBOURS if degree is None else degree
    if degree >= count - 1:
        return {k: tuple(sorted(other for other in clients if other != k)) for k in clients}
    order = [clients[i] for i in generator(*parts).permutation(count).tolist()]
    chords = [step for step in range(-(degree // 2), degree // 2 + 1) if step != 0]
    return {k: tuple(sorted(order[(i + step) % count] for step in chords)) for i, k in enumerate(order)}


def shares_needed(share: float, holders: int) -> int:
    """How many of a secret's holders give it away: the recipe's share of them, rounded up, more than half.

    On a ring, where holders are odd in number, one more: next to a gap that parts the ring a client has half
    of its neighbours left, so where everybody has more than that the living are one connected graph.
    """
    least = 2 if holders <= FEWEST else holders // 2 + 1 + holders % 2
    return min(holders, max(least, math.ceil(share * holders - 1e-9)))


def clients_needed(share: float, clients: int) -> int:
    """Of so many that take part in a sum, those without whom there is none."""
    return max(FEWEST, shares_needed(share, clients))
