"""The seam: how clients' values become one model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Contribution:
    """One client's values, shape (numel,), in the exchange dtype; weights sum to 1 over clients.

    `scale` multiplies its update (values minus base): 1 but for rules that make updates comparable.
    """

    weight: float
    values: Tensor
    scale: float = 1.0

    def moved(self, base: Tensor) -> Tensor:
        """base + scale (values - base), float64; the values themselves where the scale is 1."""
        values = self.values.double()
        return values if self.scale == 1.0 else base.double().add_(values - base, alpha=self.scale)


Aggregator = Callable[[Tensor, Iterable[Contribution]], Tensor]
"""(base, contributions in client order) -> the values that clients agree on, float64, shape (numel,).

Contributions are read once, one at a time: memory does not depend on how many there are.
"""
