"""What comes before a rule: means of several updates, so that honest ones resemble each other more.

Each is a matrix M of shape (voters, n) whose rows sum to 1: the rule sees updates M d.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from hanse.federation.robust.base import lowest, squared_distances


def nearest(gram: Tensor, liars: int) -> Tensor:
    """Nearest-neighbour mixing (2302.01772): y_i = mean of the n - f updates nearest to d_i, itself among
    them. Shape (n, n), from inner products of shape (n, n)."""
    count = len(gram)
    distances = squared_distances(gram)
    # an update is nearest to itself, also where others are equal to it
    distances.fill_diagonal_(-1.0)
    rows = torch.zeros(count, count, dtype=torch.float64)
    for row, own in zip(rows, distances, strict=True):
        row[lowest(own, count - liars)] = 1.0 / (count - liars)
    return rows


def bucketing(count: int, size: int, draw: np.random.Generator) -> Tensor:
    """Bucketing (2006.09365): means of random buckets of `size` updates, the last of which may be smaller.
    Shape (buckets, n)."""
    order = torch.from_numpy(draw.permutation(count))
    rows = torch.zeros(-(-count // size), count, dtype=torch.float64)
    for row, members in zip(rows, order.split(size), strict=True):
        row[members] = 1.0 / len(members)
    return rows
