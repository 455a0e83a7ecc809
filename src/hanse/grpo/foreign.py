"""What a completion counts for where the receiver's policy did not write it.

A sender's log-probs are no defence: it reports those that make the ratio 1. So the weight needs nothing from
the sender.
"""

from __future__ import annotations

from torch import Tensor

from hanse.policy.readings import Readings


def typical_weight(readings: Readings, mask_NT: Tensor, z: float) -> Tensor:
    """min(1, exp[log p(y) + sum of entropies + z * sqrt(sum of variances)]), shape (N,).

    1 for a completion that is no more surprising than z standard deviations above what the policy expects
    of its own; beyond, as much less as it is less likely.
    """
    own, expected, variance = (
        values.masked_fill(~mask_NT, 0.0).double().sum(1)
        for values in (readings.logp_NT, readings.entropy_NT, readings.variance_NT)
    )
    return (own + expected + z * variance.sqrt()).clamp(max=0).exp()


def below_floor(readings: Readings, mask_NT: Tensor, floor: float) -> Tensor:
    """Whether the mean log-prob of a token is below `floor`: pushing such text further down never saturates,
    and what it shares with good text goes down with it. Shape (N,)."""
    total = readings.logp_NT.masked_fill(~mask_NT, 0.0).double().sum(1)
    return total / mask_NT.sum(1).clamp(min=1) < floor


def damped(advantages_N: Tensor, readings: Readings, mask_NT: Tensor, z: float, floor: float) -> Tensor:
    """Advantages of foreign completions, weighted; negative ones below the floor are 0. Shape (N,)."""
    weighted = advantages_N * typical_weight(readings, mask_NT, z).to(advantages_N)
    sunk = (advantages_N < 0) & below_floor(readings, mask_NT, floor)
    return weighted.masked_fill(sunk, 0.0)
