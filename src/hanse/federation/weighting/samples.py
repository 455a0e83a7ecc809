"""FedAvg's weights (1602.05629): in proportion to the number of training problems."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.federation.weighting.base import Standing, State
from hanse.recipe.federation import WeightsSpec


def samples(spec: WeightsSpec, state: State, standings_C: Sequence[Standing]) -> tuple[list[float], State]:
    """w_k ~ n_k."""
    return [float(s.signal.samples) for s in standings_C], state
