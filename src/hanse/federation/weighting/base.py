"""The seam: how much each client's update counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hanse.federation.signal import Signal

State = Mapping[str, Any]
Weighting = Callable[[State, Sequence[Signal], Sequence[float]], tuple[list[float], State]]
"""(state, signals_C, update norms_C) -> (weights_C that sum to 1, state); clients in id order."""


def normalised(raw_C: Sequence[float]) -> list[float]:
    """Scaled to sum 1; uniform where nothing has weight (a round without signal divides by no zero)."""
    total = sum(raw_C)
    if total <= 0:
        return [1.0 / len(raw_C)] * len(raw_C)
    return [value / total for value in raw_C]
