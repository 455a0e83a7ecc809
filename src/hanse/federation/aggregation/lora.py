"""The seam for LoRA: where the factors lie in a flat vector, and what a rule says about them.

An adapted module adds scaling * B A to its frozen weight: A of shape (r, in), B of shape (out, r).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from hanse.federation.wire.layout import Layout
from hanse.randomness import generator

_A, _B = ".lora_A.", ".lora_B."


@dataclass(frozen=True)
class Pair:
    """One adapted module in a flat vector: `a` and `b` are where A (r, in) and B (out, r) lie."""

    name: str
    a: slice
    b: slice
    rank: int
    inputs: int
    outputs: int

    def factors(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Views of B (out, r) and A (r, in) inside a flat vector."""
        b, a = values[self.b], values[self.a]
        return b.view(self.outputs, self.rank), a.view(self.rank, self.inputs)


def pairs_of(layout: Layout) -> tuple[Pair, ...]:
    """The adapted modules, in name order; none where all parameters train."""
    where = dict(zip(layout.names, zip(layout.slices(), layout.shapes, strict=True), strict=True))
    pairs = []
    for name, (a, (rank, *inputs)) in ((n, w) for n, w in where.items() if _A in n):
        b, (outputs, *_) = where[name.replace(_A, _B)]
        pairs.append(Pair(name.partition(_A)[0], a, b, rank, prod(inputs), outputs))
    return tuple(pairs)


def entries_of_factors(layout: Layout, letters: str) -> Tensor:
    """Which entries belong to the factors named by `letters` ("A", "B" or "AB"), bool, shape (numel,)."""
    chosen = torch.zeros(layout.numel, dtype=torch.bool)
    for pair in pairs_of(layout):
        chosen[pair.a] |= "A" in letters
        chosen[pair.b] |= "B" in letters
    return chosen


def resting_entries(layout: Layout, letters: str) -> Tensor | None:
    """All entries but those of the factors named; None where nothing rests."""
    return None if letters == "AB" else ~entries_of_factors(layout, letters)


@dataclass(frozen=True)
class Factors:
    """One client's pair of one module, float64: B (out, r), A (r, in). Weights sum to 1 over clients."""

    weight: float
    B: Tensor
    A: Tensor


@dataclass(frozen=True)
class Merged:
    """A module's new pair, float64; `left` (out, R) times `right` (R, in), unscaled, go into the base."""

    B: Tensor
    A: Tensor
    left: Tensor | None = None
    right: Tensor | None = None


Merge = Callable[[Sequence[Factors], Callable[[], Tensor]], Merged]
"""(clients' pairs, draws a new A (r, in), float64) -> the new pair."""


@dataclass(frozen=True)
class LoraRule:
    """`merge` None: entry by entry, as `AGGREGATORS` says. `trains`, `shares`: the factors that are trained
    and exchanged in a round; the others rest, or with `personal` stay with each client. `renews`: clients
    begin a round with factors in other coordinates, so their moments start anew. `lifts`: part of the result
    goes into the base."""

    merge: Merge | None = None
    trains: Callable[[int], str] = lambda round: "AB"
    shares: Callable[[int], str] = lambda round: "AB"
    personal: bool = False
    renews: bool = False
    lifts: bool = False


def fresh_factor(seed: int, round: int, pair: Pair) -> Tensor:
    """A new A (r, in), float64, uniform within 1/sqrt(in), from the seed, the round and the module's name."""
    bound = 1 / math.sqrt(pair.inputs)
    draw = generator(seed, "lora", pair.name, round)
    return torch.from_numpy(draw.uniform(-bound, bound, (pair.rank, pair.inputs)))


def stacked(factors_C: Sequence[Factors]) -> tuple[Tensor, Tensor]:
    """[B_1 .. B_K] (out, K r) and [w_1 A_1; ..; w_K A_K] (K r, in), whose product is sum_k w_k B_k A_k."""
    left = torch.cat([one.B for one in factors_C], 1)
    return left, torch.cat([one.weight * one.A for one in factors_C], 0)


def means(factors_C: Sequence[Factors]) -> tuple[Tensor, Tensor]:
    """sum_k w_k B_k and sum_k w_k A_k."""
    B = sum((one.weight * one.B for one in factors_C), torch.zeros_like(factors_C[0].B))
    return B, sum((one.weight * one.A for one in factors_C), torch.zeros_like(factors_C[0].A))


def gap(factors_C: Sequence[Factors], merged: Merged) -> tuple[float, float]:
    """Squared norms of sum_k w_k B_k A_k minus what became of it, and of that sum."""
    left, right = stacked(factors_C)
    lefts, rights = [left, -merged.B], [right, merged.A]
    if merged.left is not None and merged.right is not None:
        lefts, rights = [*lefts, -merged.left], [*rights, merged.right]
    return _square(torch.cat(lefts, 1), torch.cat(rights, 0)), _square(left, right)


def _square(left: Tensor, right: Tensor) -> float:
    """|left right|² by QR, without the product and without cancellation."""
    first, second = (torch.linalg.qr(m, mode="r").R for m in (left, right.T))
    return float((first @ second.T).square().sum())
