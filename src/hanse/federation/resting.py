"""Factors that rest in a round: no gradient, no movement, no decay of their moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from hanse.federation.aggregation import resting_entries
from hanse.federation.wire.layout import Layout
from hanse.grpo.correction import Correction
from hanse.grpo.optimiser import Moments


class Resting:
    """A `grpo.correction` that keeps entries as they were at the `start` of the round, shape (numel,)."""

    def __init__(self, layout: Layout, trained: str, start: Tensor) -> None:
        self._entries, self._start = resting_entries(layout, trained), start

    def around(self, corrections: Sequence[Correction]) -> tuple[Correction, ...]:
        """First for gradients, so that others see none, and last for steps, whatever others did."""
        return tuple(corrections) if self._entries is None else (self, *corrections, self)

    def gradient(self, grad: Tensor, master: Tensor) -> None:
        if self._entries is not None:
            grad.masked_fill_(self._entries.to(grad.device), 0.0)

    def stepped(self, master: Tensor, lr: float) -> None:
        if self._entries is not None:
            master.copy_(self._start.to(master.device).where(self._entries.to(master.device), master))

    def moments(self, trained: Moments, before: Moments) -> Moments:
        """Those after the round, but for resting entries, which keep theirs."""
        if self._entries is None:
            return trained
        first, second = (
            old.to(new.device).where(self._entries.to(new.device), new)
            for old, new in ((before.first, trained.first), (before.second, trained.second))
        )
        return replace(trained, first=first, second=second)
