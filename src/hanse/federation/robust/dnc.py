"""Divide and conquer (DnC, NDSS 2021): liars stand out along the direction in which updates differ most."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hanse.federation.robust.base import View, evenly


def outlier(inner: Tensor) -> int:
    """Whose squared projection of d_i - mean on the leading singular vector is largest.

    All coordinates at once, where the paper samples some to save memory: the squared projections are
    lambda u_i², with lambda, u the leading pair of the centred inner products, shape (n, n).
    """
    centred = inner - inner.mean(0) - inner.mean(1, keepdim=True) + inner.mean()
    return int(torch.linalg.eigh(centred).eigenvectors[:, -1].square().argmax())


def dnc(view: View) -> Tensor:
    """The mean without c f outliers, one after the other. The paper removes them all along one direction,
    where liars that lie in different ones hide one another."""
    left = list(range(view.count))
    for _ in range(min(math.ceil(view.spec.removed * view.liars), view.count - 1)):
        left.pop(outlier(view.inner[left][:, left]))
    return evenly(torch.tensor(left), view.count)
