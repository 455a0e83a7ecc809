"""Server optimisers, by recipe name. A new one is one new file and one line here."""

from __future__ import annotations

from hanse.federation.server_optimizer.adam import adam
from hanse.federation.server_optimizer.average import average
from hanse.federation.server_optimizer.base import Agreement, OptimizerState, ServerOptimizer
from hanse.federation.server_optimizer.coherent import coherent
from hanse.federation.server_optimizer.momentum import momentum, nesterov
from hanse.federation.server_optimizer.plain import plain

SERVER_OPTIMIZERS: dict[str, ServerOptimizer] = {
    "plain": plain,
    "momentum": momentum,
    "nesterov": nesterov,
    "adam": adam,
    "average": average,
    "coherent": coherent,
}

__all__ = ["SERVER_OPTIMIZERS", "Agreement", "OptimizerState", "ServerOptimizer"]
