"""Weight averaging over rounds: clients train from the newest values; the mean of rounds is the result."""

from __future__ import annotations

from torch import Tensor

from hanse.federation.server_optimizer.base import Agreement, OptimizerState
from hanse.federation.server_optimizer.plain import plain
from hanse.recipe.federation import ServerSpec


def average(spec: ServerSpec, state: OptimizerState, agreement: Agreement) -> tuple[Tensor, OptimizerState]:
    """The plain step; beside it a <- ema a + (1 - ema) master, which is what is evaluated and saved."""
    master, _ = plain(spec, {}, agreement)
    mean = master.double()
    if "average" in state:
        mean = spec.ema * state["average"].double() + (1 - spec.ema) * mean
    return master, {"average": mean.float()}
