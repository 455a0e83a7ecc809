"""How much of a round's summed gradient is signal rather than noise, measured while a client trains."""

from __future__ import annotations

import torch
from torch import Tensor

from hanse.federation.weighting.coherence import signal_share


class GradientMeter:
    """Sums the raw gradients of a round's updates (a `grpo.correction` that changes nothing)."""

    def __init__(self, like: Tensor) -> None:
        self._sum = torch.zeros_like(like)
        self._squares = 0.0
        self._steps = 0

    def gradient(self, grad: Tensor, master: Tensor) -> None:
        self._sum.add_(grad.cpu())
        self._squares += float(grad.double().square().sum())
        self._steps += 1

    def stepped(self, master: Tensor, lr: float) -> None:
        """Nothing."""

    def signal(self) -> float:
        """The share of signal times the norm of the summed gradient."""
        norm_squared = float(self._sum.double().square().sum())
        return float(signal_share(norm_squared, self._squares, self._steps) * norm_squared**0.5)
