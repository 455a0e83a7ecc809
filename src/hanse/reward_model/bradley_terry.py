"""The Bradley–Terry model of preferences: the chance that a beats b is sigmoid(r_a - r_b). Pure functions."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import softplus


def margins(preferred_N: Tensor, other_N: Tensor) -> Tensor:
    """How much higher the preferred completion of each pair scores, shape (N,)."""
    return preferred_N - other_N


def loss(margins_N: Tensor) -> Tensor:
    """Mean negative log-likelihood, -log sigmoid(margin): log 2 where nothing is told apart."""
    return softplus(-margins_N).mean()


def accuracy(margins_N: Tensor) -> float:
    """The share of pairs that the model orders as they were labelled; a tie counts half.

    Raises ValueError for no pairs.
    """
    if not margins_N.numel():
        raise ValueError("no pairs, so no accuracy")
    right = (margins_N > 0).double() + (margins_N == 0).double() / 2
    return float(right.mean())


def boundary_distance(margins_N: Tensor) -> float:
    """|mean margin|: how far a client lies from the boundary at which neither answer is preferred.

    Opposed clients of a model in the middle are both near 0; one that sides with some is far from the others.
    """
    return abs(float(margins_N.double().mean()))
