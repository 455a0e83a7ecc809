"""AdamW over the flat master vector, its schedule, and the state that survives a round."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hanse.recipe.model import GrpoSpec


@dataclass
class Moments:
    """AdamW's state: first and second moment, shape (numel,), and the number of updates done."""

    first: Tensor
    second: Tensor
    updates: int = 0

    @classmethod
    def zeros(cls, like: Tensor) -> Moments:
        return cls(torch.zeros_like(like), torch.zeros_like(like))

    def to(self, device: torch.device | str, *, copy: bool = False) -> Moments:
        """On the device: itself where it is there already, unless a copy is asked for."""
        first, second = (moment.to(device, copy=copy) for moment in (self.first, self.second))
        return Moments(first, second, self.updates)


class Optimiser:
    """torch's AdamW on one flat tensor. `moments` can be swapped, which is how clients take turns."""

    def __init__(self, master: Tensor, spec: GrpoSpec) -> None:
        self._flat = nn.Parameter(master, requires_grad=True)
        self._flat.data = master
        self._adamw = torch.optim.AdamW(
            [self._flat], lr=spec.lr, betas=spec.betas, weight_decay=spec.weight_decay, fused=True
        )
        self.moments = Moments.zeros(master)

    def update(self, grad: Tensor, lr: float) -> None:
        """One AdamW update of the master in place."""
        moments = self.moments
        self._adamw.state[self._flat] = {
            "step": torch.tensor(float(moments.updates), device=self._flat.device),
            "exp_avg": moments.first,
            "exp_avg_sq": moments.second,
        }
        self._adamw.param_groups[0]["lr"] = lr
        self._flat.grad = grad
        self._adamw.step()
        self._flat.grad = None
        moments.updates += 1


def learning_rate(spec: GrpoSpec, step: int, total_steps: int) -> float:
    """The rate of step `step` (from 0): linear warm-up, then constant, linear or cosine decay to zero."""
    if step < spec.warmup_steps:
        return spec.lr * (step + 1) / spec.warmup_steps
    progress = (step - spec.warmup_steps) / max(1, total_steps - spec.warmup_steps)
    if spec.schedule == "linear":
        return spec.lr * max(0.0, 1 - progress)
    if spec.schedule == "cosine":
        return spec.lr * (1 + math.cos(math.pi * min(1.0, progress))) / 2
    return spec.lr
