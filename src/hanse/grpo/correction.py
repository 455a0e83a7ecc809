"""The seam through which a federated local method changes a learner's updates."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Correction(Protocol):
    """Called by the learner around each optimiser update that is done; changes its arguments in place."""

    def gradient(self, grad: Tensor, master: Tensor) -> None:
        """Before clipping: the summed gradient and the current values, float32, shape (numel,)."""
        ...

    def stepped(self, master: Tensor, lr: float) -> None:
        """After the optimiser has moved the values."""
        ...
