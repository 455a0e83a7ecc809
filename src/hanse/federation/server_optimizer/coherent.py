"""Coherent server steps (ours): tensors whose updates agree from round to round move, noise does not.

Agreement over time, not across clients: disjoint skills give updates that are orthogonal across clients
without being noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hanse.federation.server_optimizer.base import Agreement, OptimizerState, moved
from hanse.recipe.federation import ServerSpec


def coherent(spec: ServerSpec, state: OptimizerState, agreement: Agreement) -> tuple[Tensor, OptimizerState]:
    """Per tensor b: s_b = EMA <d_b, d_b of the last round>, t_b = EMA |d_b|²; gain g_b = clip(s_b / t_b,
    floor, 1), all gains rescaled so that |g d| = |d|; then momentum v <- beta v + (1 - beta) g d."""
    update = agreement.update
    if "last" not in state:
        energy = _by_tensor(update * update, agreement.sizes)
        return moved(agreement, spec.lr * update), {
            "last": update.float(),
            "velocity": update.float(),
            "agreeing": energy.float() * spec.floor,
            "energy": energy.float(),
        }
    past = spec.ema
    agreeing = past * state["agreeing"].double() + (1 - past) * _by_tensor(
        update * state["last"].double(), agreement.sizes
    )
    energy = past * state["energy"].double() + (1 - past) * _by_tensor(update * update, agreement.sizes)
    gain = (agreeing / energy.clamp(min=1e-300)).clamp(spec.floor, 1.0)
    scaled = update * gain.repeat_interleave(torch.tensor(agreement.sizes))
    scaled *= update.norm() / scaled.norm().clamp(min=1e-300)
    beta = spec.momentum or 0.0
    velocity = beta * state["velocity"].double() + (1 - beta) * scaled
    return moved(agreement, spec.lr * velocity), {
        "last": update.float(),
        "velocity": velocity.float(),
        "agreeing": agreeing.float(),
        "energy": energy.float(),
    }


def _by_tensor(values: Tensor, sizes: Sequence[int]) -> Tensor:
    return torch.stack([part.sum() for part in values.split(list(sizes))])
