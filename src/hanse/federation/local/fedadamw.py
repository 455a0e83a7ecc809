"""FedAdamW (2510.27486): clients share block means of the second moment and lean towards the global update.

Our reading of its abstract and digest: second moments start from the tensors' mean second moment over
clients; every local update also moves a share `alpha` of the last round's mean step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from hanse.federation.local.base import SETTLED, Delivered, LocalMethod, Plain, Vectors, renewed
from hanse.grpo.optimiser import Moments


class FedAdamW(Plain):
    """Starts from mean second moments; after each update theta <- theta + lr alpha (mean global step)."""

    def moments(self, moments: Moments) -> Moments:
        means = self.setting.extras.get("second_means")
        if means is None:
            return moments
        second = means.repeat_interleave(torch.tensor(self.setting.sizes)).to(moments.second.device)
        return Moments(moments.first, second, max(moments.updates, SETTLED))

    def stepped(self, master: Tensor, lr: float) -> None:
        super().stepped(master, lr)
        step = self.setting.extras.get("global_step")
        if step is not None:
            master.add_(step.to(master.device), alpha=lr * self.setting.spec.alpha)

    def finish(self, master: Tensor, moments: Moments) -> tuple[Vectors, Vectors]:
        unbiased = moments.second.cpu() / (1 - self.setting.beta ** max(1, moments.updates))
        parts = unbiased.split(list(self.setting.sizes))
        means = torch.stack([part.mean() if len(part) else part.sum() for part in parts])
        return {"second_means": means, "rate": torch.tensor([self.rate_sum])}, {}


def absorb(state: Vectors, delivered: Delivered) -> Vectors:
    """Means over clients, and the round's mean update over the mean sum of learning rates."""
    past = state.get("second_means")
    pairs = [
        (extras["second_means"].double(), extras["rate"].double().clamp(min=0))
        for extras in delivered.extras_C
    ]
    means, rates = (torch.stack(column).mean(0) for column in zip(*pairs, strict=True))
    rate = float(rates)
    step = delivered.update / rate if rate > 0 else torch.zeros_like(delivered.update)
    second = renewed(past, means, len(pairs), delivered.clients)
    return {"second_means": second.float(), "global_step": step.float()}


def _sends(sizes: Sequence[int]) -> Mapping[str, int]:
    return {"second_means": len(sizes), "rate": 1}


def _receives(sizes: Sequence[int]) -> Mapping[str, int]:
    return {"second_means": len(sizes), "global_step": sum(sizes)}


FEDADAMW = LocalMethod(FedAdamW, absorb, _sends, _receives, squares=("second_means",))
