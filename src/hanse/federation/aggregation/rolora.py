"""RoLoRA (2502.01755): rounds alternate; one factor trains and is averaged while the other rests."""

from __future__ import annotations

from hanse.federation.aggregation.lora import LoraRule


def trained(round: int) -> str:
    """B in odd rounds, A in even ones: A has no gradient while B is zero."""
    return "B" if round % 2 else "A"


ROLORA = LoraRule(trains=trained, shares=trained)
"""sum_k w_k B_k A = (sum_k w_k B_k) A, and sum_k w_k B A_k = B (sum_k w_k A_k): exact in every round."""
