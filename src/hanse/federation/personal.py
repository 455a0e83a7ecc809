"""What stays with a client: entries that it trains and never sends."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hanse.federation.aggregation import lora_rule, resting_entries
from hanse.federation.wire.layout import Layout


@dataclass(frozen=True)
class Personal:
    """`entries`: which of the flat vector's are personal, bool, shape (numel,); None: none are."""

    entries: Tensor | None

    @classmethod
    def of(cls, rule: str, layout: Layout) -> Personal:
        known = lora_rule(rule)
        return cls(resting_entries(layout, known.shares(1)) if known.personal else None)

    def with_own(self, common: Tensor, own: Tensor | None) -> Tensor:
        """The values of a client: common ones, and its own where it has any yet, shape (n,)."""
        if self.entries is None:
            return common
        values = common.clone()
        if own is not None:
            values[self.entries] = own
        return values

    def own(self, values: Tensor) -> Tensor | None:
        """The personal entries of a client's values, shape (n,)."""
        return None if self.entries is None else values.cpu()[self.entries]

    def without_own(self, values: Tensor, base: Tensor) -> Tensor:
        """What may be sent: the base's values in place of the client's own."""
        return values if self.entries is None else base.to(values.dtype).where(self.entries, values)
