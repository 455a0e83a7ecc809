"""Rules that shorten what is too long: norm clipping, and clipping around the last aggregate."""

from __future__ import annotations

import torch
from torch import Tensor

from hanse.federation.robust.base import View, typical


def shrink(lengths: Tensor, radius: float) -> Tensor:
    """min(1, tau / length), 1 where the length is zero."""
    return (radius / lengths.clamp(min=torch.finfo(torch.float64).tiny)).clamp(max=1.0)


def norm_clipping(view: View) -> Tensor:
    """sum_i w_i d_i min(1, tau / |d_i|) (1911.07963), tau a multiple of the median length: a liar has at most
    the length of an honest client, times `radius`."""
    radius = view.spec.radius * typical(view.lengths, view.liars)
    return view.weights * shrink(view.lengths, radius)


def centred_clipping(view: View) -> Tensor:
    """v <- v + sum_i w_i (d_i - v) min(1, tau / |d_i - v|), from v = m, the last aggregate (2012.10333); tau
    a multiple of the median distance.

    v = sum_i a_i d_i + (1 - sum_i a_i) m throughout, and the a_i are returned.
    """
    point = torch.zeros(view.count + 1, dtype=torch.float64)
    point[-1] = 1.0
    for _ in range(view.spec.iterations or 1):
        products = view.gram @ point
        squares = view.gram.diagonal() - 2 * products + point @ products
        distances = squares[:-1].clamp(min=0.0).sqrt()
        radius = view.spec.radius * typical(distances, view.liars)
        pull = view.weights * shrink(distances, radius)
        point = (1 - pull.sum()) * point
        point[:-1] += pull
    return point[:-1]
