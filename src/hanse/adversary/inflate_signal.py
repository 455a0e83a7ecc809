"""A client that wants weight tells a larger signal than its own.

No server without its problems can tell: the mean reward is moved to where the deviation is possible.
"""

from __future__ import annotations

from dataclasses import replace

from hanse.federation.signal import Signal


def inflate_signal(signal: Signal, inflation: float) -> Signal:
    """`inflation` times the reward deviation, at most 0.5, a mean reward of 0.5, and every group informative:
    for rewards in [0, 1] and groups of even size (0.5, 0.5) is always possible."""
    std = min(0.5, inflation * signal.reward_std)
    pooled = min(0.5, max(std, inflation * signal.reward_std_pooled))
    return replace(
        signal, reward_mean=0.5, reward_std=std, reward_std_pooled=pooled, informative=signal.groups
    )
