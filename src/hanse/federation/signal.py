"""The signal: the few scalars that a client's GRPO produces for free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from hanse.grpo.advantages import group_mean_std
from hanse.policy.rollout import Group

MAX_REWARD = 1e12
"""Rewards beyond this are no rewards; sums of them stay finite in float64."""


@dataclass(frozen=True)
class Signal:
    """Over a client's groups of one round.

    `reward_mean`: mean of the groups' mean rewards; `reward_std`: mean within-group population standard
    deviation; `groups`: how many had a scored rollout; `informative`: how many had differing rewards;
    `samples`: the client's training problems.
    """

    reward_mean: float
    reward_std: float
    groups: int
    informative: int
    samples: int

    def to_fields(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_fields(cls, fields: Any) -> Signal:
        """Raises ValueError for anything but finite numbers and non-negative counts."""
        if not isinstance(fields, dict) or set(fields) != set(cls.__dataclass_fields__):
            raise ValueError("signal has other fields than expected")
        floats = [fields["reward_mean"], fields["reward_std"]]
        counts = [fields["groups"], fields["informative"], fields["samples"]]
        if not all(type(x) in (int, float) and abs(x) <= MAX_REWARD for x in floats):
            raise ValueError("signal is not finite")
        if not all(type(n) is int and 0 <= n < 2**40 for n in counts) or floats[1] < 0:
            raise ValueError("signal has impossible counts or a negative deviation")
        return cls(**fields)


def measure(groups: Sequence[Group], samples: int) -> Signal:
    """The signal of scored groups."""
    rewards = torch.stack([g.rewards_G for g in groups if g.rewards_G is not None])
    mean_P, std_P = group_mean_std(rewards, population=True)
    counted = (~rewards.isnan()).any(-1)
    if not bool(counted.any()):
        return Signal(0.0, 0.0, 0, 0, samples)
    return Signal(
        reward_mean=float(mean_P[counted].mean()),
        reward_std=float(std_P[counted].mean()),
        groups=int(counted.sum()),
        informative=int((std_P > 0).sum()),
        samples=samples,
    )
