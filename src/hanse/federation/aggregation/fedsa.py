"""FedSA-LoRA (2410.01463): both factors train, A is averaged, B stays with each client."""

from __future__ import annotations

from hanse.federation.aggregation.lora import LoraRule

FEDSA = LoraRule(shares=lambda round: "A", personal=True)
"""A = sum_k w_k A_k; client k goes on with B_k A. There is a policy a client, and no common one."""
