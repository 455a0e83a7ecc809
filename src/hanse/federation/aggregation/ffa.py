"""FFA-LoRA (2403.12313): one random A for everybody, never trained; only B trains and travels."""

from __future__ import annotations

from hanse.federation.aggregation.lora import LoraRule

FFA = LoraRule(trains=lambda round: "B", shares=lambda round: "B")
"""sum_k w_k B_k A = (sum_k w_k B_k) A: the mean of B is exact."""
