"""A round's contributions combined by the recipe's rule, whatever its kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from torch import Tensor

from hanse.federation.aggregation.base import Aggregator, Contribution
from hanse.federation.aggregation.lora import Factors, LoraRule, Merged, Pair, gap


@dataclass(frozen=True)
class Combined:
    """`target`: what clients agree on, float64, shape (numel,). `residual`: |sum_k w_k B_k A_k - result| over
    |sum_k w_k B_k A_k|, of all adapted modules, before rounding; None without LoRA, with one client, and
    where factors are personal. `lifted`: (left, right) of each module, for rules that lift into the base."""

    target: Tensor
    residual: float | None = None
    lifted: list[tuple[Tensor, Tensor]] = field(default_factory=list)


def combine(
    rule: LoraRule,
    aggregate: Aggregator,
    pairs: Sequence[Pair],
    base: Tensor,
    contributions_C: Iterable[Contribution],
    fresh: Callable[[Pair], Tensor],
) -> Combined:
    """Without LoRA `aggregate`, streaming; with it module by module, all clients' factors at hand.

    `fresh` draws a new A of a module.
    """
    if not pairs:
        return Combined(aggregate(base, contributions_C))
    clients = list(contributions_C)
    values_C = [_moved(base, one) for one in clients]
    target = aggregate(base, clients) if rule.merge is None else base.double()
    lifted, lost, whole = [], 0.0, 0.0
    for pair in pairs:
        B, A = pair.factors(target)
        factors = [Factors(one.weight, *pair.factors(v)) for one, v in zip(clients, values_C, strict=True)]
        merged = Merged(B, A)
        if rule.merge is not None:
            merged = rule.merge(factors, partial(fresh, pair))
            B.copy_(merged.B)
            A.copy_(merged.A)
        if merged.left is not None and merged.right is not None:
            lifted.append((merged.left, merged.right))
        missed, total = gap(factors, merged)
        lost, whole = lost + missed, whole + total
    if rule.personal or len(clients) == 1:
        return Combined(target, None, lifted)
    return Combined(target, math.sqrt(lost / whole) if whole > 0 else 0.0, lifted)


def _moved(base: Tensor, one: Contribution) -> Tensor:
    """A client's values with its update scaled, float64."""
    values, start = one.values.double(), base.double()
    return values if one.scale == 1.0 else start + one.scale * (values - start)
