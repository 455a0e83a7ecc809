"""FedAvg's weights (1602.05629): in proportion to the number of training problems."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.federation.signal import Signal
from hanse.federation.weighting.base import State, normalised


def samples(state: State, signals_C: Sequence[Signal], norms_C: Sequence[float]) -> tuple[list[float], State]:
    """w_k = n_k / sum_j n_j."""
    return normalised([float(signal.samples) for signal in signals_C]), state
