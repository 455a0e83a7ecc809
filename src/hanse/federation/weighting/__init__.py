"""Weightings, by recipe name. A new one is one new file and one line here."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.federation.weighting.base import Standing, State, Weighting, capped, normalised
from hanse.federation.weighting.coherence import coherence
from hanse.federation.weighting.fairness import fairness
from hanse.federation.weighting.fixed import fixed
from hanse.federation.weighting.relative_gain import relative_gain
from hanse.federation.weighting.reward_std import reward_std
from hanse.federation.weighting.samples import samples
from hanse.federation.weighting.task_accuracy import task_accuracy
from hanse.federation.weighting.uniform import uniform
from hanse.recipe.federation import FederationSpec

WEIGHTINGS: dict[str, Weighting] = {
    "samples": samples,
    "uniform": uniform,
    "fixed": fixed,
    "reward-std": reward_std,
    "relative-gain": relative_gain,
    "task-accuracy": task_accuracy,
    "fairness": fairness,
    "coherence": coherence,
}
UNCAPPED = ("samples", "uniform", "fixed")
"""Weightings that do not rest on the rewards that clients report."""

__all__ = ["WEIGHTINGS", "Standing", "State", "Weighting", "capped", "normalised", "weigh"]


def weigh(spec: FederationSpec, state: State, standings_C: Sequence[Standing]) -> tuple[list[float], State]:
    """Weights_C that sum to 1 and respect the cap, and the weighting's state. Trust and freshness
    multiply them."""
    raw, state = WEIGHTINGS[spec.weighting](spec.weights, state, standings_C)
    factors = [one.trust * one.freshness for one in standings_C]
    if any(factor < 1 for factor in factors):
        raw = [weight * factor for weight, factor in zip(normalised(raw), factors, strict=True)]
    cap = None if spec.weighting in UNCAPPED else spec.weights.cap
    return capped(normalised(raw), cap), state
