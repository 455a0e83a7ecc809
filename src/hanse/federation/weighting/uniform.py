"""Every client counts the same."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.federation.signal import Signal
from hanse.federation.weighting.base import State


def uniform(state: State, signals_C: Sequence[Signal], norms_C: Sequence[float]) -> tuple[list[float], State]:
    """w_k = 1 / K."""
    return [1.0 / len(signals_C)] * len(signals_C), state
