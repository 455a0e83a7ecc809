"""Bulyan (1802.07927): Krum chooses again and again, then every coordinate is trimmed around its median."""

from __future__ import annotations

import torch
from torch import Tensor

from hanse.federation.robust.base import View, lowest, squared_distances
from hanse.federation.robust.krum import scores
from hanse.federation.robust.median import median


def chosen(view: View) -> Tensor:
    """theta = n - 2 f updates, in ascending order: Krum's choice among those that are left, theta times.

    Towards the end two updates can be each other's only neighbour: then the score among all n decides.
    """
    distances = squared_distances(view.inner)
    left = torch.argsort(scores(distances, view.liars), stable=True).tolist()
    picked = []
    for _ in range(view.count - 2 * view.liars):
        among = torch.tensor(left)
        picked.append(left.pop(int(lowest(scores(distances[among][:, among], view.liars), 1))))
    return torch.tensor(sorted(picked))


def bulyan(block: Tensor, liars: int) -> Tensor:
    """Of the theta that were chosen, per coordinate the mean of the theta - 2 f values nearest to their
    median."""
    middle = block.gather(0, median(block, liars)).mean(0)
    return (block - middle).abs().argsort(dim=0, stable=True)[: len(block) - 2 * liars]
