"""The seam: what the server does with the values that clients agreed on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from hanse.recipe.federation import ServerSpec

OptimizerState = Mapping[str, Tensor]
"""What an optimiser remembers from round to round: float32 tensors by name."""


@dataclass(frozen=True)
class Agreement:
    """A round's result. `master` float32: the server's values; `base`: what was sent of them, in the
    exchange dtype; `target` float64: what clients agreed on; all shape (numel,). `sizes`: entries of each
    tensor, in order."""

    master: Tensor
    base: Tensor
    target: Tensor
    sizes: Sequence[int]

    @property
    def update(self) -> Tensor:
        """The mean update, float64."""
        return self.target - self.base.double()


ServerOptimizer = Callable[[ServerSpec, OptimizerState, Agreement], tuple[Tensor, OptimizerState]]
"""(options, state, agreement) -> (new master float32, state)."""


def moved(agreement: Agreement, step: Tensor) -> Tensor:
    """The master plus a float64 step, rounded once."""
    return agreement.master.double().add_(step).float()
