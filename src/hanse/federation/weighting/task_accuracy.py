"""FedMOA's server rule (2602.00453): better clients count more. Only its abstract is public; our form."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.federation.weighting.base import Standing, State, softmax
from hanse.recipe.federation import WeightsSpec


def task_accuracy(
    spec: WeightsSpec, state: State, standings_C: Sequence[Standing]
) -> tuple[list[float], State]:
    """w_k ~ exp(a_k / temperature) (times n_k where `times_samples`), a_k the round's mean reward."""
    sizes = [float(s.signal.samples) if spec.times_samples else 1.0 for s in standings_C]
    scores = softmax([s.signal.reward_mean for s in standings_C], spec.temperature)
    return [n * w for n, w in zip(sizes, scores, strict=True)], state
