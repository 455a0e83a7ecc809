"""Log-sum-exp fairness (APPA, 2604.04261): those who lag behind count more. Our form of its abstract."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.federation.weighting.base import Standing, State, smoothed, softmax
from hanse.recipe.federation import WeightsSpec


def fairness(spec: WeightsSpec, state: State, standings_C: Sequence[Standing]) -> tuple[list[float], State]:
    """w_k ~ exp(-h_k / temperature), h_k the smoothed mean reward; uniform below a spread of `threshold`."""
    history, state = smoothed(state, {s.client: s.signal.reward_mean for s in standings_C}, spec.ema)
    rewards = [history[s.client] for s in standings_C]
    if max(rewards) - min(rewards) <= spec.threshold:
        return [1.0] * len(rewards), state
    return softmax([-h for h in rewards], spec.temperature), state
