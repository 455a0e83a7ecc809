"""The geometric median (RFA, 1912.13445): the point with the smallest sum of distances."""

from __future__ import annotations

import torch
from torch import Tensor

from hanse.federation.robust.base import View, evenly, lowest, squared_distances, typical

_SMOOTHING = 1e-6
"""Distances below this share of the median length count as this."""
_SETTLED = 1e-12


def geometric_median(view: View) -> Tensor:
    """argmin_v sum_i w_i |v - d_i| by Weiszfeld's steps c_i <- (w_i / max(nu, |v - d_i|)) / sum, v = sum_i
    c_i d_i, all from inner products. They begin in the middle of the densest half of the updates, so that
    liars far away do not cost iterations."""
    inner, squares = view.inner, view.inner.diagonal()
    floor = max(_SMOOTHING * typical(view.lengths, view.liars), torch.finfo(torch.float64).tiny)
    c = _densest_half(inner)
    for _ in range(view.spec.iterations or 100):
        products = inner @ c
        distances = (squares - 2 * products + c @ products).clamp(min=0.0).sqrt()
        pull = view.weights / distances.clamp(min=floor)
        before, c = c, pull / pull.sum()
        if float((c - before).abs().max()) < _SETTLED:
            break
    return c


def _densest_half(inner: Tensor) -> Tensor:
    """The mean of the majority of updates that fits into the smallest ball around one of them."""
    distances = squared_distances(inner)
    half = len(inner) // 2 + 1
    radii = distances.sort(1).values[:, half - 1]
    return evenly(lowest(distances[int(radii.argmin())], half), len(inner))
