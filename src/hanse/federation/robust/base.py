"""The seam: a rule sees lengths and angles of updates, and answers with coefficients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from hanse.recipe.robust import RobustSpec

IDLE = 1e-3
"""Updates shorter than this share of the median have hardly moved: their clients found nothing to learn."""
_ROUNDING = 1e-14


@dataclass(frozen=True)
class View:
    """What a rule sees of n updates d_i, of which at most `liars` may be anything.

    `gram`: inner products of the updates, float64, shape (n + 1, n + 1); the last row and column are those of
    the anchor, which is what the rule starts from or trusts, and zero where there is none. `weights`: sum to
    1, shape (n,).
    """

    spec: RobustSpec
    gram: Tensor
    weights: Tensor
    liars: int

    @property
    def count(self) -> int:
        return len(self.gram) - 1

    @property
    def inner(self) -> Tensor:
        """Inner products of the updates alone, shape (n, n)."""
        return self.gram[:-1, :-1]

    @property
    def lengths(self) -> Tensor:
        """|d_i|, shape (n,)."""
        return self.inner.diagonal().clamp(min=0.0).sqrt()


Rule = Callable[[View], Tensor]
"""As `linear`, coefficients c, float64, shape (n,): the update is sum_i c_i d_i, and for rules that start
from the last aggregate m, sum_i c_i d_i + (1 - sum_i c_i) m. As `select`, positions of updates."""
Coordinates = Callable[[Tensor, int], Tensor]
"""(entries of the updates, float64, shape (n, block); liars) -> which updates' entries are averaged, int64,
shape (averaged, block)."""


@dataclass(frozen=True)
class Method:
    """A rule: `linear`, or `coordinates`, where it works entry by entry, after `select` chose the updates
    that it sees. `anchor`: what the last row of the Gram matrix is. `compares`: the rule rests on distances
    between updates, so those that have hardly moved are left out; a cluster of them would pass for
    agreement."""

    linear: Rule | None = None
    coordinates: Coordinates | None = None
    select: Rule | None = None
    anchor: Literal["none", "last", "root"] = "none"
    compares: bool = False


def squared_distances(gram: Tensor) -> Tensor:
    """|d_i - d_j|² from inner products, shape (n, n): never negative, zero on the diagonal and where nothing
    but rounding is left."""
    sums = gram.diagonal()[:, None] + gram.diagonal()[None, :]
    distances = sums - 2 * gram
    return distances.masked_fill(distances <= _ROUNDING * sums, 0.0).fill_diagonal_(0.0)


def moving(lengths: Tensor, needed: int) -> Tensor:
    """Which updates have moved, bool, shape (n,); all where fewer than `needed` have: then those that have
    not count as updates of length zero, and no client can stop a round by sending nothing."""
    positive = lengths[lengths > 0]
    if not len(positive):
        return torch.ones_like(lengths, dtype=torch.bool)
    moved = lengths > IDLE * positive.median()
    return moved if int(moved.sum()) >= needed else torch.ones_like(moved)


def typical(lengths: Tensor, liars: int) -> float:
    """The median of the lengths of those updates that have moved."""
    return float(lengths[moving(lengths, 2 * liars + 1)].median())


def lowest(scores: Tensor, count: int) -> Tensor:
    """Where the `count` lowest scores are; of equal ones the first."""
    return torch.argsort(scores, stable=True)[:count]


def evenly(chosen: Tensor, count: int) -> Tensor:
    """The mean of the chosen, as coefficients of all `count`."""
    coefficients = torch.zeros(count, dtype=torch.float64)
    coefficients[chosen] = 1.0 / len(chosen)
    return coefficients
