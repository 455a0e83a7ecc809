"""The server takes over what clients agreed on."""

from __future__ import annotations

from torch import Tensor

from hanse.federation.server_optimizer.base import Agreement, OptimizerState, moved
from hanse.recipe.federation import ServerSpec


def plain(spec: ServerSpec, state: OptimizerState, agreement: Agreement) -> tuple[Tensor, OptimizerState]:
    """master + lr (target - base). With lr = 1 formed as (master - base) + target, rounded once: with a
    float32 exchange the master becomes exactly the rounded target."""
    if spec.lr != 1.0:
        return moved(agreement, spec.lr * agreement.update), state
    kept = agreement.master.double().sub_(agreement.base.double())
    return kept.add_(agreement.target).float(), state
