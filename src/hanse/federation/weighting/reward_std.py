"""Signal-weighted aggregation (Fed-GRPO, 2610.11502): by reward deviation instead of sample count.

For one prompt the policy gradient is a covariance with the reward, so the within-group deviation bounds it;
Adam gives every client's update about the same length, whatever signal it rests on.
"""

from __future__ import annotations

from collections.abc import Sequence

from hanse.federation.weighting.base import Standing, State, smoothed
from hanse.recipe.federation import WeightsSpec

_FLOOR = 1e-8
"""Keeps weights defined where one client has signal and others none; no client with signal notices."""


def reward_std(spec: WeightsSpec, state: State, standings_C: Sequence[Standing]) -> tuple[list[float], State]:
    """w_k ~ sigma_k^gamma (times n_k where `times_samples`); uniform where no client has signal.

    sigma: the mean within-group deviation, or the pooled one, smoothed over rounds by `ema`.
    """
    own = {
        s.client: s.signal.reward_std if spec.std == "within" else s.signal.reward_std_pooled
        for s in standings_C
    }
    sigma, state = smoothed(state, own, spec.ema)
    if sum(sigma.values()) < 1e-6:
        return [1.0] * len(standings_C), state
    sizes = [float(s.signal.samples) if spec.times_samples else 1.0 for s in standings_C]
    raw = [n * (sigma[s.client] ** spec.gamma + _FLOOR) for n, s in zip(sizes, standings_C, strict=True)]
    return raw, state
