"""FedProx (1812.06127): a pull back to the values received."""

from __future__ import annotations

from torch import Tensor

from hanse.federation.local.base import LocalMethod, Plain


class FedProx(Plain):
    """Adds mu (theta - theta_received) to every gradient."""

    def gradient(self, grad: Tensor, master: Tensor) -> None:
        grad.add_(master - self.setting.start.to(master.device), alpha=self.setting.spec.mu)


FEDPROX = LocalMethod(FedProx)
