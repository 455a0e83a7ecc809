"""How much of a group's gradient belongs to poisoned copies: closed forms behind the attack (2511.09780).

Influence is the advantage (population standard deviation) times the share of the group that has it.
"""

from __future__ import annotations

import math

import numpy as np

from hanse.randomness import generator


def against_failures(share: float) -> float:
    """Of copies with reward 1 among completions with reward 0: sqrt(x (1 - x)), at most 1/2, at x = 1/2.
    Hence the half of gibberish in groups that an attacker owns."""
    return math.sqrt(share * (1 - share))


def against_normal(
    mean: float, std: float, copies: int, group: int, draws: int = 4000, seed: int = 0
) -> float:
    """Of `copies` with reward 1 among honest rewards ~ N(mean, std²), averaged over draws of groups."""
    honest = generator("influence", seed).normal(mean, std, (draws, group - copies))
    rewards = np.concatenate([np.ones((draws, copies)), honest], axis=1)
    advantage = (1 - rewards.mean(1)) / rewards.std(1)
    return float(advantage.mean()) * copies / group


def against_binary(success: float, copies: int, group: int) -> tuple[float, float]:
    """Of `copies` with reward 1, and of the honest completions that are right, where each of those is with
    probability `success`: the expectation over how many are. A group in which all are right gives nothing."""
    poisoned = honest = 0.0
    others = group - copies
    for right in range(others + 1):
        p = math.comb(others, right) * success**right * (1 - success) ** (others - right)
        mean = (copies + right) / group
        advantage = math.sqrt((1 - mean) / mean) if mean < 1 else 0.0
        poisoned += p * advantage * copies / group
        honest += p * advantage * right / group
    return poisoned, honest
