"""Global reward calibration: effort goes to prompts on which a client is behind the federation.

Mechanism: Fed-GRPO (2610.11502). Its exact form isn't published; this is ours (docs/methods/fed-grpo.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hanse.grpo.advantages import group_mean_std, informative
from hanse.policy.rollout import Group
from hanse.recipe.federation import CalibrationSpec


def prompt_weights(mean_P: Tensor, counted_P: Tensor, pivot: float, spec: CalibrationSpec) -> Tensor:
    """Weights of P prompts with mean rewards `mean_P`; those of `counted_P` have mean one, unless
    `normalise` is "none". Shape (P,).

    linear: 1 + strength (pivot - m); exponential: exp(strength (pivot - m)); both clipped to [low, high]
    before they are normalised. Exactly one where `strength` is 0.
    """
    if spec.strength == 0:
        return torch.ones_like(mean_P)
    gap = spec.strength * (pivot - mean_P)
    raw = 1 + gap if spec.form == "linear" else gap.exp()
    clipped = raw.clamp(spec.low, spec.high)
    if spec.normalise == "none":
        return clipped
    total = clipped[counted_P].sum()
    return clipped * counted_P.sum() / total if float(total) > 0 else torch.ones_like(mean_P)


def calibrate(groups: Sequence[Group], global_mean: float | None, spec: CalibrationSpec) -> None:
    """Multiply each group's advantages by its prompt's weight, which weighs its objective.

    Every objective is positively homogeneous in the advantages; a KL penalty is left as it is. Nothing
    happens in the first round, when no global mean is known yet.
    """
    if spec.strength == 0 or (spec.pivot == "global" and global_mean is None):
        return
    rewards = torch.stack([g.rewards_G for g in groups if g.rewards_G is not None])
    mean_P, _ = group_mean_std(rewards)
    useful = informative(rewards)
    scored = (~rewards.isnan()).any(-1)
    counted = useful if spec.normalise == "informative" else scored
    pivots = {"global": global_mean, "local": _local_mean(mean_P, scored), "constant": spec.constant}
    weights = prompt_weights(mean_P, counted, float(pivots[spec.pivot] or 0.0), spec)
    for group, weight in zip(groups, weights.tolist(), strict=True):
        group.weigh(weight)


def _local_mean(mean_P: Tensor, scored: Tensor) -> float:
    return float(mean_P[scored].mean()) if bool(scored.any()) else 0.0
