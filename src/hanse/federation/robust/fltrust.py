"""FLTrust (2012.13995): updates count as far as they go the way of the server's own."""

from __future__ import annotations

import torch
from torch import Tensor

from hanse.federation.robust.base import IDLE, View


def fltrust(view: View) -> Tensor:
    """(1 / sum_i TS_i) sum_i TS_i (|g_0| / |d_i|) d_i, TS_i = ReLU(cos(d_i, g_0)), g_0 the root update.

    Where nobody goes that way, or the root does not move, nothing does. Updates that have hardly moved beside
    the root have TS_i = 0: brought to its length, one of 1e-40 would have a factor that no sum survives.
    """
    root, tiny = view.gram[-1, -1].clamp(min=0.0).sqrt(), torch.finfo(torch.float64).tiny
    lengths = view.lengths
    scale = (lengths * root).clamp(min=tiny)
    trust = torch.where(lengths > IDLE * root, view.gram[:-1, -1] / scale, 0.0).clamp(0.0, 1.0)
    return trust / trust.sum().clamp(min=tiny) * root / lengths.clamp(min=tiny)
