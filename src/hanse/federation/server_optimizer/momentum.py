"""Server momentum (FedAvgM, 1909.06335) and Nesterov momentum (DiLoCo, 2311.08105)."""

from __future__ import annotations

from torch import Tensor

from hanse.federation.server_optimizer.base import Agreement, OptimizerState, moved
from hanse.recipe.federation import ServerSpec


def momentum(spec: ServerSpec, state: OptimizerState, agreement: Agreement) -> tuple[Tensor, OptimizerState]:
    """m <- beta m + (1 - beta) d, in the first round m = d; master + lr m."""
    update, beta = agreement.update, _beta(spec)
    if "velocity" in state:
        update = update.mul_(1 - beta).add_(state["velocity"].double(), alpha=beta)
    return moved(agreement, spec.lr * update), {"velocity": update.float()}


def nesterov(spec: ServerSpec, state: OptimizerState, agreement: Agreement) -> tuple[Tensor, OptimizerState]:
    """v <- beta v + d; master + lr (d + beta v). DiLoCo: lr = 0.7, beta = 0.9."""
    update = agreement.update
    velocity, beta = update.clone(), _beta(spec)
    if "velocity" in state:
        velocity.add_(state["velocity"].double(), alpha=beta)
    step = update.add_(velocity, alpha=beta)
    return moved(agreement, spec.lr * step), {"velocity": velocity.float()}


def _beta(spec: ServerSpec) -> float:
    return 0.9 if spec.momentum is None else spec.momentum
