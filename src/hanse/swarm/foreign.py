"""Foreign completions in a round's grid (see `grpo.foreign`)."""

from __future__ import annotations

import torch
from torch import Tensor

from hanse.grpo.foreign import damped
from hanse.policy.readings import Readings
from hanse.recipe.swarm import SwarmSpec
from hanse.swarm.collect import Grid


def foreign_weights(readings: Readings, grid: Grid, advantages_PG: Tensor, spec: SwarmSpec) -> Tensor:
    """The same for a round's grid; readings in (P, G) order. Shape (P, G)."""
    T = grid.tokens_PST.shape[-1]
    mask = torch.arange(T) < grid.lengths_PS.view(-1, 1)
    found = damped(advantages_PG.flatten(), readings, mask, spec.typical_z, spec.floor)
    return found.view_as(advantages_PG)
