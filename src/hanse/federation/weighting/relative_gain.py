"""FGRPO (2606.03094): by each client's gain over its own history. Only its abstract is public; our form."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.federation.weighting.base import Standing, State, smoothed, softmax
from hanse.recipe.federation import WeightsSpec

_EPSILON = 0.05
"""A small baseline would make the relative gain of a hard task explode."""
_CLIP = 1.0
_PAST = 0.9


def relative_gain(
    spec: WeightsSpec, state: State, standings_C: Sequence[Standing]
) -> tuple[list[float], State]:
    """w_k ~ exp(g_k / temperature) (times n_k where `times_samples`), g clipped to [-1, 1].

    gain "global": g_k = (R_k - b_k) / (|b_k| + 0.05), R_k the round's mean reward and b_k its exponential
    mean over earlier rounds; "own": the same of the last local step's reward over the first's.
    """
    past = dict(state.get("mean", {}))
    rewards = {s.client: s.signal.reward_mean for s in standings_C}
    gains = []
    for s in standings_C:
        if spec.gain == "global":
            now, before = s.signal.reward_mean, past.get(str(s.client), s.signal.reward_mean)
        else:
            now, before = s.signal.reward_last, s.signal.reward_first
        gain = (now - before) / (abs(before) + _EPSILON)
        gains.append(max(-_CLIP, min(_CLIP, gain)))
    _, state = smoothed(state, rewards, _PAST if spec.ema is None else spec.ema)
    sizes = [float(s.signal.samples) if spec.times_samples else 1.0 for s in standings_C]
    return [n * w for n, w in zip(sizes, softmax(gains, spec.temperature), strict=True)], state
