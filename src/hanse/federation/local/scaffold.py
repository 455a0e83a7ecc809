"""SCAFFOLD (1910.06378) for Adam: control variates in units of the preconditioned step.

As derived for SGD they would be gradients; under Adam those have the wrong scale, so c_k is the mean
direction in which client k moved, over its learning rate. Traffic doubles both ways.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from hanse.federation.local.base import Delivered, LocalMethod, Plain, Vectors
from hanse.grpo.optimiser import Moments


class Scaffold(Plain):
    """After each update theta <- theta - lr (c - c_k); then c_k <- c_k - c + (theta_0 - theta) / sum lr."""

    def _controls(self) -> tuple[Tensor, Tensor]:
        zeros = torch.zeros_like(self.setting.start)
        return self.setting.extras.get("control", zeros), self.setting.kept.get("control", zeros)

    def stepped(self, master: Tensor, lr: float) -> None:
        super().stepped(master, lr)
        common, own = self._controls()
        master.sub_((common - own).to(master.device), alpha=lr)

    def finish(self, master: Tensor, moments: Moments) -> tuple[Vectors, Vectors]:
        common, own = self._controls()
        if self.rate_sum == 0:
            return {"control": torch.zeros_like(own)}, {"control": own}
        new = own - common + (self.setting.start - master.cpu()) / self.rate_sum
        return {"control": new - own}, {"control": new}


def absorb(state: Vectors, delivered: Delivered) -> Vectors:
    """c <- c + sum_k (change of c_k) / (all clients)."""
    control = state.get("control", torch.zeros_like(delivered.update, dtype=torch.float32)).double()
    for extras in delivered.extras_C:
        control.add_(extras["control"].double(), alpha=1 / delivered.clients)
    return {"control": control.float()}


def _vector(sizes: Sequence[int]) -> Mapping[str, int]:
    return {"control": sum(sizes)}


SCAFFOLD = LocalMethod(Scaffold, absorb, sends=_vector, receives=_vector)
