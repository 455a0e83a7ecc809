"""Trust from outcomes: what the server's own problems say of each client's update, round after round.

Signals are the clients' own word, and no server that lacks their prompts can check them. It can check what an
update does: sample the same problems, with the same random numbers, a step along it and a step against it.
An honest update alone, at full length, makes a policy worse: the noise that others' updates average out is a
loss that both steps share, and their difference is free of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import torch
from torch import Tensor

from hanse.recipe.audit import AuditSpec

_LEAST = 1e-12


@dataclass(frozen=True)
class Gain:
    """Of one update in one audit: what it does for the reward of N problems, and its sampling variance."""

    mean: float
    variance: float


@dataclass(frozen=True)
class Evidence:
    """Of one client: gains and their variances, summed over audits, older ones forgotten bit by bit;
    `lowest`: its lowest trust so far."""

    gain: float = 0.0
    variance: float = 0.0
    lowest: float = 1.0


def probed(base: Tensor, values: Tensor, norm: float, middle: float, step: float) -> tuple[Tensor, Tensor]:
    """base + s d and base - s d of an update d = values - base, float64: `step` of it, and no longer than of
    an update of the median norm `middle`, so that nobody gains by length."""
    scale = step * min(1.0, middle / norm) if norm > 0 else step
    base64 = base.double()
    moved = (values.double() - base64).mul_(scale)
    return base64 + moved, base64 - moved


def gain_of(along_N: Tensor, against_N: Tensor) -> Gain:
    """Half the paired difference of rewards; problems that are unscored in one of the two do not count.

    The variance is at least as if one more problem had shown no difference: the same harm on every problem
    is the surest harm, not one of which nothing is known.
    """
    found = (along_N - against_N).double() / 2
    found = found[~found.isnan()]
    if len(found) < 2:
        return Gain(0.0, 0.0)
    mean, count = float(found.mean()), len(found)
    return Gain(mean, max(float(found.var()) / count, (mean / (count + 1)) ** 2))


def absorbed(
    spec: AuditSpec, before: Mapping[int, Evidence], gains: Mapping[int, Gain]
) -> dict[int, Evidence]:
    """Evidence after an audit: e = (1 - forget) e + gain + tolerance, v = (1 - forget)^2 v + variance."""
    keep, after = 1.0 - spec.forget, dict(before)
    for client, gain in gains.items():
        past = before.get(client, Evidence())
        total = keep * past.gain + gain.mean + spec.tolerance
        found = Evidence(total, keep * keep * past.variance + gain.variance, past.lowest)
        after[client] = replace(found, lowest=min(found.lowest, trust(spec, found)))
    return after


def trust(spec: AuditSpec, evidence: Evidence) -> float:
    """min(1, 2 Phi(strength e / sqrt(v))): 1 for whoever does no harm, and less the less likely it is that
    harm was chance alone."""
    if evidence.variance <= _LEAST:
        return 1.0
    return min(1.0, 2.0 * NormalDist().cdf(spec.strength * evidence.gain / math.sqrt(evidence.variance)))


def area(liars: Sequence[float], honest: Sequence[float]) -> float | None:
    """The chance that a liar has less trust than an honest client, ties one half (AUC of the ROC)."""
    if not liars or not honest:
        return None
    wins = sum((one < other) + 0.5 * (one == other) for one in liars for other in honest)
    return wins / (len(liars) * len(honest))


def found_at(liars: Sequence[float], honest: Sequence[float], alarms: float) -> float | None:
    """The share of liars below the highest threshold that no more than `alarms` of the honest are below."""
    if not liars or not honest:
        return None
    ordered = torch.tensor(honest, dtype=torch.float64).sort().values
    threshold = float(ordered[min(len(ordered) - 1, math.floor(alarms * len(ordered) + 1e-9))])
    return sum(one < threshold for one in liars) / len(liars)
