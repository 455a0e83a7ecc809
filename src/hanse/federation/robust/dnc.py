"""Divide and conquer (DnC, NDSS 2021): liars stand out along the direction in which updates differ most."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hanse.federation.robust.base import View, evenly, lowest


def dnc(view: View) -> Tensor:
    """The mean of the updates without the c f largest squared projections of d_i - mean on the leading
    singular vector.

    All coordinates at once, where the paper samples some to save memory: the squared projections are
    lambda u_i², with lambda, u the leading pair of the centred inner products.
    """
    count = view.count
    centring = torch.eye(count, dtype=torch.float64) - 1.0 / count
    values, vectors = torch.linalg.eigh(centring @ view.inner @ centring)
    scores = values[-1].clamp(min=0.0) * vectors[:, -1].square()
    kept = max(1, count - math.ceil(view.spec.removed * view.liars))
    return evenly(lowest(scores, kept), count)
