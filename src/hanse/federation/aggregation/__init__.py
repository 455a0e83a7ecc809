"""Aggregation rules, by recipe name. A new one is one new file and one line here."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.federation.aggregation.base import Aggregator, Contribution
from hanse.federation.aggregation.combine import Combined, combine
from hanse.federation.aggregation.fedex import FEDEX
from hanse.federation.aggregation.fedsa import FEDSA
from hanse.federation.aggregation.ffa import FFA
from hanse.federation.aggregation.flexlora import FLEXLORA
from hanse.federation.aggregation.flora import FLORA
from hanse.federation.aggregation.lora import LoraRule, fresh_factor, pairs_of, resting_entries
from hanse.federation.aggregation.masked import masked
from hanse.federation.aggregation.mean import mean
from hanse.federation.aggregation.rolora import ROLORA
from hanse.federation.aggregation.scales import equal_norms, equal_steps
from hanse.federation.aggregation.sign_consensus import sign_consensus
from hanse.federation.weighting import Standing
from hanse.recipe.federation import FederationSpec

AGGREGATORS: dict[str, Aggregator] = {
    "mean": mean,
    "norm-equalised": mean,
    "masked": masked,
    "sign-consensus": sign_consensus,
    **dict.fromkeys(("ffa", "fedsa", "rolora", "flora", "flexlora", "fedex"), mean),
}

LORA_RULES: dict[str, LoraRule] = {
    "ffa": FFA,
    "fedsa": FEDSA,
    "rolora": ROLORA,
    "flora": FLORA,
    "flexlora": FLEXLORA,
    "fedex": FEDEX,
}

__all__ = [
    "AGGREGATORS",
    "Aggregator",
    "Combined",
    "Contribution",
    "combine",
    "fresh_factor",
    "lora_rule",
    "pairs_of",
    "resting_entries",
    "scales",
]


def lora_rule(name: str) -> LoraRule:
    """What the recipe's rule says about LoRA factors; of rules that are not about them nothing special."""
    return LORA_RULES.get(name, LoraRule())


def scales(spec: FederationSpec, weights_C: Sequence[float], standings_C: Sequence[Standing]) -> list[float]:
    """The factor of each client's update."""
    if spec.aggregation == "norm-equalised":
        return equal_norms(weights_C, standings_C)
    if spec.local == "fednova":
        return equal_steps(weights_C, standings_C)
    return [1.0] * len(standings_C)
