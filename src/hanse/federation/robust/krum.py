"""Krum and Multi-Krum (1703.02757): the updates that lie closest to their neighbours."""

from __future__ import annotations

import torch
from torch import Tensor

from hanse.federation.robust.base import View, evenly, lowest, squared_distances


def scores(distances: Tensor, liars: int) -> Tensor:
    """s_i = sum of |d_i - d_j|² over the n - f - 2 nearest others, at least one; shape (n,)."""
    count = len(distances)
    neighbours = min(max(1, count - liars - 2), count - 1)
    others = distances.clone().fill_diagonal_(torch.inf)
    return others.sort(1).values[:, :neighbours].sum(1)


def krum(view: View) -> Tensor:
    """The update with the lowest score."""
    return evenly(lowest(scores(squared_distances(view.inner), view.liars), 1), view.count)


def multi_krum(view: View) -> Tensor:
    """The plain mean of the m <= n - f - 2 updates with the lowest scores: by head, as counts of samples
    are what clients say of themselves."""
    most = view.count - view.liars - 2
    kept = most if view.spec.keep is None else min(most, view.spec.keep)
    return evenly(lowest(scores(squared_distances(view.inner), view.liars), kept), view.count)
