"""Adaptive server steps (FedAdam, 2003.00295): no bias correction, `tau` bounds the adaptivity."""

from __future__ import annotations

import torch
from torch import Tensor

from hanse.federation.server_optimizer.base import Agreement, OptimizerState, moved
from hanse.recipe.federation import ServerSpec


def adam(spec: ServerSpec, state: OptimizerState, agreement: Agreement) -> tuple[Tensor, OptimizerState]:
    """m <- b1 m + (1 - b1) d; v <- b2 v + (1 - b2) d²; master + lr m / (sqrt(v) + tau); v starts at tau²."""
    update = agreement.update
    zeros = torch.zeros_like(update)
    first = state["first"].double() if "first" in state else zeros
    second = state["second"].double() if "second" in state else zeros + spec.tau**2
    first = spec.betas[0] * first + (1 - spec.betas[0]) * update
    second = spec.betas[1] * second + (1 - spec.betas[1]) * update.square()
    step = spec.lr * first / (second.sqrt() + spec.tau)
    return moved(agreement, step), {"first": first.float(), "second": second.float()}
