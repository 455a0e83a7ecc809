"""FedMOA's server rule (2602.00453): better clients count more. Only its abstract is public; our form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hanse.federation.weighting.base import Standing, State, normalised, softmax
from hanse.recipe.federation import WeightsSpec


def task_accuracy(
    spec: WeightsSpec, state: State, standings_C: Sequence[Standing]
) -> tuple[list[float], State]:
    """w_k = pi_z * softmax over clients of the same task z of a_k / temperature (times n_k where
    `times_samples`), a_k the round's mean reward.

    The recipe names each client's task; without names there is one. pi_z: equal for every task that took
    part, or its share of problems where `times_samples`.
    """
    tasks = _members(spec, standings_C)
    sizes = {name: float(_samples(rows) if spec.times_samples else 1) for name, rows in tasks.items()}
    weight: dict[int, float] = {}
    for name, share in zip(tasks, normalised(list(sizes.values())), strict=True):
        weight |= {client: share * own for client, own in _within(spec, tasks[name]).items()}
    return [weight[s.client] for s in standings_C], state


def _members(spec: WeightsSpec, standings_C: Sequence[Standing]) -> Mapping[str, list[Standing]]:
    tasks: dict[str, list[Standing]] = {}
    for one in standings_C:
        tasks.setdefault("" if spec.tasks is None else spec.tasks[one.client], []).append(one)
    return tasks


def _within(spec: WeightsSpec, rows: Sequence[Standing]) -> dict[int, float]:
    """Weights within a task, with sum 1."""
    sizes = [float(s.signal.samples) if spec.times_samples else 1.0 for s in rows]
    scores = softmax([s.signal.reward_mean for s in rows], spec.temperature)
    weights = normalised([n * w for n, w in zip(sizes, scores, strict=True)])
    return {s.client: w for s, w in zip(rows, weights, strict=True)}


def _samples(rows: Sequence[Standing]) -> int:
    return sum(s.signal.samples for s in rows)
