"""A common preconditioner (ours; near relatives: FedAdamW, 2510.27486, and other averages of Adam's state).

Adam divides by the root of a client's own second moment, so a client whose gradients are small and noisy
moves as far as one whose gradients are large. With the mean second moment of all clients each moves as far
as its gradients reach, and the mean of their updates is close to the step of one learner with all prompts.
The second moment travels entry by entry: traffic doubles both ways.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from hanse.federation.local.base import SETTLED, Delivered, LocalMethod, Plain, Vectors, renewed
from hanse.grpo.optimiser import Moments


class SharedMoment(Plain):
    """Starts each round from the clients' mean second moment; the first moment stays its own."""

    def moments(self, moments: Moments) -> Moments:
        second = self.setting.extras.get("second")
        if second is None:
            return moments
        return Moments(moments.first, second.clone().to(moments.first.device), max(moments.updates, SETTLED))

    def finish(self, master: Tensor, moments: Moments) -> tuple[Vectors, Vectors]:
        unbiased = moments.second.cpu() / (1 - self.setting.beta ** max(1, moments.updates))
        return {"second": unbiased}, {}


def absorb(state: Vectors, delivered: Delivered) -> Vectors:
    """The mean over clients, each the same."""
    total, count = torch.zeros_like(delivered.update), 0
    for extras in delivered.extras_C:
        total.add_(extras["second"].double())
        count += 1
    return {"second": renewed(state.get("second"), total / count, count, delivered.clients).float()}


def _vector(sizes: Sequence[int]) -> Mapping[str, int]:
    return {"second": sum(sizes)}


SHARED_MOMENT = LocalMethod(SharedMoment, absorb, sends=_vector, receives=_vector, squares=("second",))
