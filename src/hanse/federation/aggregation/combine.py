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
    values_C = [one.moved(base) for one in clients]
    target = aggregate(base, clients) if rule.merge is None else base.double()
    merged, gaps = [], []
    for pair in pairs:
        factors = [Factors(one.weight, *pair.factors(v)) for one, v in zip(clients, values_C, strict=True)]
        merged.append(_merged(rule, pair, target, factors, fresh))
        gaps.append(gap(factors, merged[-1]))
    lifted = [(one.left, one.right) for one in merged if one.left is not None and one.right is not None]
    return Combined(target, None if rule.personal or len(clients) == 1 else _share(gaps), lifted)


def _merged(
    rule: LoraRule,
    pair: Pair,
    target: Tensor,
    factors_C: Sequence[Factors],
    fresh: Callable[[Pair], Tensor],
) -> Merged:
    """A module's new pair, which `target` holds from now on."""
    B, A = pair.factors(target)
    if rule.merge is None:
        return Merged(B, A)
    merged = rule.merge(factors_C, partial(fresh, pair))
    B.copy_(merged.B)
    A.copy_(merged.A)
    return merged


def _share(gaps: Sequence[tuple[float, float]]) -> float:
    """What was missed of the whole, from the squared norms of every module."""
    lost, whole = map(sum, zip(*gaps, strict=True))
    return math.sqrt(lost / whole) if whole > 0 else 0.0
