"""The seam: how much each client's update counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hanse.federation.signal import Signal
from hanse.recipe.federation import WeightsSpec

State = Mapping[str, Any]
"""What a weighting remembers from round to round: JSON, by client id where it is a client's."""


@dataclass(frozen=True)
class Standing:
    """What is known of a client when its update is weighed: its signal, its update's L2 norm, and how far it
    is trusted (see `federation.audit`). `staleness`: rounds that the upload is late, `freshness`:
    what it counts for all that (see `federation.lateness`)."""

    client: int
    signal: Signal
    norm: float
    trust: float = 1.0
    staleness: int = 0
    freshness: float = 1.0


Weighting = Callable[[WeightsSpec, State, Sequence[Standing]], tuple[list[float], State]]
"""(options, state, standings_C) -> (raw weights_C, none negative; state); clients in id order."""


def normalised(raw_C: Sequence[float]) -> list[float]:
    """Scaled to sum 1; uniform where nothing has weight (a round without signal divides by no zero)."""
    total = math.fsum(raw_C)
    if not 0 < total < math.inf:
        return [1.0 / len(raw_C)] * len(raw_C)
    return [value / total for value in raw_C]


def capped(weights_C: Sequence[float], cap: float | None) -> list[float]:
    """Weights that sum to 1, none above cap / K; what is cut off goes to the others in proportion.

    Where all others have no weight, it goes to them equally.
    """
    K = len(weights_C)
    limit = 1.0 if cap is None else min(1.0, cap / K)
    weights, full = list(weights_C), set[int]()
    while True:
        over = {k for k in range(K) if k not in full and weights[k] > limit * (1 + 1e-12)}
        if not over:
            return weights
        full |= over
        rest = [k for k in range(K) if k not in full]
        left = 1.0 - limit * len(full)
        shares = normalised([weights[k] for k in rest]) if rest else []
        weights = [limit] * K
        for k, share in zip(rest, shares, strict=True):
            weights[k] = left * share


def smoothed(
    state: State, values_C: Mapping[int, float], ema: float | None
) -> tuple[dict[int, float], State]:
    """Each client's exponential mean: ema * past + (1 - ema) * now; the first value stands for itself."""
    past: Mapping[str, float] = state.get("mean", {})
    ema = ema or 0.0
    now = {k: ema * past.get(str(k), v) + (1 - ema) * v for k, v in values_C.items()}
    return now, {**state, "mean": {**past, **{str(k): v for k, v in now.items()}}}


def softmax(scores_C: Sequence[float], temperature: float) -> list[float]:
    """exp(score / temperature), scaled so that the largest is 1."""
    top = max(scores_C)
    return [math.exp((score - top) / temperature) for score in scores_C]
