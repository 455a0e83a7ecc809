"""Nothing at all: a client that takes and does not give."""

from __future__ import annotations

import torch
from torch import Tensor

from hanse.adversary.updates.base import Scene
from hanse.recipe.adversary import AdversarySpec


def zero(spec: AdversarySpec, scene: Scene) -> Tensor:
    """Shape (F, D)."""
    return torch.zeros_like(scene.own_FD)
