"""Which entries a secure sum is over: all, or of LoRA rules that alternate, the factors that travel."""

from __future__ import annotations

from torch import Tensor

from hanse.federation.aggregation import resting_entries
from hanse.federation.aggregation.lora import LoraRule
from hanse.federation.wire.layout import Layout


def exchanged_entries(layout: Layout, rule: LoraRule, round: int) -> Tensor | None:
    """Bool, shape (numel,); None where all are."""
    resting = resting_entries(layout, rule.shares(round))
    return None if resting is None else ~resting
