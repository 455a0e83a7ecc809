"""Adaptive sparse communication: a round's budget of entries, shared among clients by water-filling."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hanse.recipe.federation import BudgetSpec


def share_entries(changed_C: Sequence[int], shares_C: Sequence[float], fraction: float) -> list[int]:
    """Entries that each client may send: in all round(fraction * sum of `changed_C`), none above its own.

    In proportion to `shares_C` (Fed-GRPO, 2610.11502: reward deviations); what a client cannot use goes to
    the others in the same proportion. Where no client that can use more has a share, equally. A fraction
    of 1 returns `changed_C`.
    """
    total = min(round(fraction * sum(changed_C)), sum(changed_C))
    level = _fill([float(n) for n in changed_C], list(shares_C), float(total))
    return _rounded(level, list(changed_C), total)


def shared(spec: BudgetSpec, reported: Mapping[int, tuple[int, float]]) -> dict[int, int]:
    """Entries granted by client, of those that `reported` changed entries and a reward deviation."""
    assert spec.fraction is not None
    shares = [std if spec.share == "signal" else 1.0 for _, std in reported.values()]
    counts = share_entries([n for n, _ in reported.values()], shares, spec.fraction)
    return dict(zip(reported, counts, strict=True))


def lagged(
    spec: BudgetSpec, reported: Mapping[int, tuple[int, float]], clients: Sequence[int]
) -> dict[int, int]:
    """Grants to `clients` by what they last reported; none for those that never did."""
    if spec.fraction is None or spec.share == "own" or spec.grant != "lagged":
        return {}
    return shared(spec, {k: reported[k] for k in clients if k in reported})


def _fill(capacity_C: list[float], shares_C: list[float], total: float) -> list[float]:
    """Real-valued water-filling: min(capacity, level * share), the level such that it sums to `total`."""
    filled = [0.0] * len(capacity_C)
    open_C = [k for k, room in enumerate(capacity_C) if room > 0]
    while open_C and total > 1e-9:
        most = max(shares_C[k] for k in open_C)
        weights = {k: shares_C[k] / most if most > 0 else 1.0 for k in open_C}
        scale = total / sum(weights.values())
        full = [k for k in open_C if scale * weights[k] >= capacity_C[k]]
        if not full:
            for k in open_C:
                filled[k] = scale * weights[k]
            break
        for k in full:
            filled[k] = capacity_C[k]
            total -= capacity_C[k]
        open_C = [k for k in open_C if k not in full]
    return filled


def _rounded(filled_C: list[float], capacity_C: list[int], total: int) -> list[int]:
    """Whole numbers that sum to `total`: the largest remainders are rounded up, within capacity."""
    counts = [min(math.floor(x + 1e-9), room) for x, room in zip(filled_C, capacity_C, strict=True)]
    by_remainder = sorted(range(len(counts)), key=lambda k: (counts[k] - filled_C[k], k))
    missing = total - sum(counts)
    while missing > 0:
        able = [k for k in by_remainder if counts[k] < capacity_C[k]]
        for k in able[:missing]:
            counts[k] += 1
        missing = total - sum(counts)
    return counts
