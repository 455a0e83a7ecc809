"""Every client counts the same."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.federation.weighting.base import Standing, State
from hanse.recipe.federation import WeightsSpec


def uniform(spec: WeightsSpec, state: State, standings_C: Sequence[Standing]) -> tuple[list[float], State]:
    """w_k = 1 / K."""
    return [1.0] * len(standings_C), state
