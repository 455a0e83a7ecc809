"""What a study tells of swarms: how far the attacks got, and what honest nodes paid. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hanse.runs.report.reading import Points, mean, numbered, part, points, values
from hanse.runs.study.statistics import summarise

SCALARS = (
    "attack_success",
    "honest_reward",
    "honest_rejects",
    "length",
    "attack_accepted",
    "stop_rate",
    "refused_bundles",
)
CURVES = ("attack_success", "honest_reward", "length")
AT = "attack_success_at"
_LATE = 3
_DIGITS = 6

Row = Mapping[str, Any]


def of_run(summary: Row, rounds: Sequence[Row], interest: Sequence[int]) -> dict[str, Any] | None:
    """The swarm's part of a run's record; None for other modes."""
    told = part(summary, "swarm")
    if not told:
        return None
    curves = {key: points(numbered(rounds), f"swarm/{key}") for key in CURVES}
    found: dict[str, Any] = {key: told.get(key) for key in SCALARS}
    found[AT] = {str(number): value_at(curves["attack_success"], number) for number in interest}
    found["curves"] = {
        key: [[round(x), round(y, _DIGITS)] for x, y in curve] for key, curve in curves.items()
    }
    control = part(told, "control")
    return found | ({"control": {key: control.get(key) for key in SCALARS}} if control else {})


def value_at(curve: Points, number: int) -> float | None:
    """The mean of the last three values up to a round, as one round is noisy; None where the curve ends
    before it."""
    if not curve or curve[-1][0] < number:
        return None
    return mean([y for x, y in curve if x <= number][-_LATE:])


def of_arm(runs: Sequence[Row]) -> dict[str, Any] | None:
    """Mean, spread and interval over runs of all that they tell; curves: [round, mean, sd]."""
    told = [part(run, "swarm") for run in runs if part(run, "swarm")]
    if not told:
        return None
    found: dict[str, Any] = {key: _summary(told, key) for key in SCALARS}
    numbers = dict.fromkeys(number for one in told for number in part(one, AT))
    found[AT] = {number: _summary([part(one, AT) for one in told], number) for number in numbers}
    found["curves"] = {
        key: _mean_curve([part(one, "curves").get(key) or [] for one in told]) for key in CURVES
    }
    return found


def _summary(rows: Sequence[Row], key: str) -> dict[str, Any]:
    return summarise(values(rows, key)).to_json()


def _mean_curve(curves: Sequence[Sequence[Sequence[float]]]) -> list[list[float | None]]:
    by_round: dict[float, list[float]] = {}
    for curve in curves:
        for number, value in curve:
            by_round.setdefault(number, []).append(value)
    summaries = {number: summarise(values) for number, values in sorted(by_round.items())}
    return [[number, _rounded(s.mean), _rounded(s.sd)] for number, s in summaries.items()]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
