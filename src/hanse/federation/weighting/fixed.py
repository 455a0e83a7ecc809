"""Weights from the recipe: the control that tells a rule's adaptivity from its mean shape."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.federation.weighting.base import Standing, State
from hanse.recipe.federation import WeightsSpec


def fixed(spec: WeightsSpec, state: State, standings_C: Sequence[Standing]) -> tuple[list[float], State]:
    """w_k ~ the recipe's `federation.weights.fixed`, by client id."""
    assert spec.fixed is not None
    return [spec.fixed[s.client] for s in standings_C], state
