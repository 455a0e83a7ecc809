"""The signal: the few scalars that a client's GRPO produces for free."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from hanse.grpo.advantages import group_mean_std, informative
from hanse.policy.rollout import Group

MAX_REWARD = 1e12
"""Rewards beyond this are no rewards; sums of them stay finite in float64."""
_COUNTS = ("groups", "informative", "samples", "updates", "partial")


@dataclass(frozen=True)
class Signal:
    """Over a client's groups of one round.

    `reward_mean`: mean of the groups' mean rewards; `reward_std`: mean within-group population standard
    deviation; `groups`: how many had a scored rollout; `informative`: how many had differing rewards;
    `samples`: the client's training problems. `reward_std_pooled`: deviation of all rewards from their mean,
    which also counts differences between prompts; `reward_first`, `reward_last`: means of the first and the
    last local step; `updates`: optimiser updates done; `partial`: groups with unscored rollouts; `coherence`:
    share of the summed gradient that is signal rather than noise, times its norm (see `weighting.coherence`).
    """

    reward_mean: float
    reward_std: float
    groups: int
    informative: int
    samples: int
    reward_std_pooled: float = 0.0
    reward_first: float = 0.0
    reward_last: float = 0.0
    updates: int = 0
    partial: int = 0
    coherence: float = 0.0

    def to_fields(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_fields(cls, fields: Any) -> Signal:
        """Raises ValueError for anything but finite numbers, non-negative counts and deviations."""
        if not isinstance(fields, dict) or set(fields) != set(cls.__dataclass_fields__):
            raise ValueError("signal has other fields than expected")
        for name, value in fields.items():
            if name in _COUNTS:
                if type(value) is not int or not 0 <= value < 2**40:
                    raise ValueError(f"signal has an impossible count: {name}")
            elif type(value) not in (int, float) or not abs(value) <= MAX_REWARD:
                raise ValueError(f"signal is not finite: {name}")
        if min(fields["reward_std"], fields["reward_std_pooled"], fields["coherence"]) < 0:
            raise ValueError("signal has a negative deviation")
        if fields["informative"] > fields["groups"]:
            raise ValueError("signal has more informative groups than groups")
        return cls(**fields)


def measure(
    steps: Sequence[Sequence[Group]], samples: int, *, updates: int = 0, coherence: float = 0.0
) -> Signal:
    """The signal of scored groups, given by local step."""
    groups = [group for step in steps for group in step]
    rewards = torch.stack([g.rewards_G for g in groups if g.rewards_G is not None])
    mean_P, std_P = group_mean_std(rewards, population=True)
    counted = (~rewards.isnan()).any(-1)
    if not bool(counted.any()):
        return Signal(0.0, 0.0, 0, 0, samples, updates=updates)
    return Signal(
        reward_mean=float(mean_P[counted].mean()),
        reward_std=float(std_P[counted].mean()),
        groups=int(counted.sum()),
        informative=int(informative(rewards).sum()),
        samples=samples,
        reward_std_pooled=float(rewards[~rewards.isnan()].std(correction=0)),
        reward_first=_mean_reward(steps[0]),
        reward_last=_mean_reward(steps[-1]),
        updates=updates,
        partial=int(rewards.isnan().any(-1).sum()),
        coherence=coherence,
    )


def _mean_reward(groups: Sequence[Group]) -> float:
    """Mean over groups of the mean over scored rollouts; 0 where nothing was scored."""
    rewards = torch.stack([g.rewards_G for g in groups if g.rewards_G is not None])
    mean_P, _ = group_mean_std(rewards)
    counted = (~rewards.isnan()).any(-1)
    return float(mean_P[counted].mean()) if bool(counted.any()) else 0.0


def mean_reward(signals: Sequence[Signal]) -> float:
    """The mean of several clients', by problems; within MAX_REWARD, which rounding may leave."""
    total = max(1, sum(one.samples for one in signals))
    mean = math.fsum(one.reward_mean * one.samples for one in signals) / total
    return max(-MAX_REWARD, min(MAX_REWARD, mean))


def largest_std(mean: float, low: float, high: float, group_size: int) -> float:
    """The largest honest `reward_std` of groups of `group_size` rewards in [low, high] with this mean.

    A group's deviation is largest where rewards lie at the bounds: the concave polygon over the points
    j/G of sqrt(m (1 - m)), tighter than that curve itself for means between them.
    """
    width = high - low
    if width <= 0:
        return 0.0
    place = min(max((mean - low) / width, 0.0), 1.0) * group_size
    j = min(int(place), group_size - 1)
    left, right = (math.sqrt(i * (group_size - i)) / group_size for i in (j, j + 1))
    return width * (left + (place - j) * (right - left))
