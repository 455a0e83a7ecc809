"""A round's updates combined by a robust rule: Gram matrix, mixing, rule, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from hanse.federation.aggregation import AGGREGATORS, Combined, Contribution, combine, lora_rule
from hanse.federation.aggregation.lora import Pair
from hanse.federation.robust import ROBUST
from hanse.federation.robust.base import Coordinates, View, moving
from hanse.federation.robust.gram import Read, blocks, gram
from hanse.federation.robust.mixing import bucketing, nearest
from hanse.federation.weighting import UNCAPPED, capped, normalised
from hanse.randomness import generator
from hanse.recipe.federation import FederationSpec
from hanse.recipe.robust import WEIGHTED_RULES

Root = Callable[[int, Tensor], Tensor]
"""(round, base: its values, shape (numel,)) -> the update that the server's own problems ask for, in the
same coordinates, shape (numel,)."""
Memory = Mapping[str, Tensor]
"""What a rule remembers from round to round, float32: `last`, the update agreed on, shape (numel,)."""
_NOTHING = 1e-12


@dataclass(frozen=True)
class Settled:
    """`coefficients_C`: how much of each client's update is in the result; of rules that work entry by entry
    the mean over entries that somebody changed."""

    combined: Combined
    coefficients_C: list[float]
    memory: Memory = field(default_factory=dict)


@dataclass(frozen=True)
class Updates:
    """A round's values as a rule reads them: the base's, readers of the clients', and where LoRA's factors
    lie."""

    base: Tensor
    reads_C: Sequence[Read]
    pairs: Sequence[Pair]


@dataclass(frozen=True)
class RobustCombination:
    """The recipe's rule. `root` gives the update that FLTrust trusts."""

    spec: FederationSpec
    seed: int = 0
    root: Root | None = None

    def settle(
        self,
        round: int,
        memory: Memory,
        updates: Updates,
        weights_C: Sequence[float],
        liars: int,
        fresh: Callable[[Pair], Tensor],
    ) -> Settled:
        """What the rule makes of the updates, at most `liars` of which may be anything."""
        method = ROBUST[self.spec.robust.rule]
        anchor = self._anchor(round, memory, updates.base)
        inner = self._gram(updates, anchor)
        mix, view = self._view(round, inner, weights_C, liars)
        if method.coordinates is not None:
            if method.select is not None:
                mix = mix[method.select(view)]
            return _by_coordinates(method.coordinates, updates, mix, liars)
        assert method.linear is not None
        coefficients = mix.T @ method.linear(view)
        remembered = anchor if method.anchor == "last" else None
        parts = _contributions(updates, coefficients.tolist(), remembered)
        rule, mean = lora_rule(self.spec.aggregation), AGGREGATORS["mean"]
        combined = combine(rule, mean, updates.pairs, updates.base, parts, fresh)
        kept: Memory = {}
        if method.anchor == "last":
            kept = {"last": (combined.target - updates.base.double()).float()}
        return Settled(combined, coefficients.tolist(), kept)

    def _anchor(self, round: int, memory: Memory, base: Tensor) -> Tensor | None:
        """What the rule starts from or trusts: an update, float64, shape (numel,)."""
        anchor = ROBUST[self.spec.robust.rule].anchor
        if anchor == "root":
            assert self.root is not None
            return self.root(round, base).double()
        return memory["last"].double() if anchor == "last" and "last" in memory else None

    def _gram(self, updates: Updates, anchor: Tensor | None) -> Tensor:
        """Shape (K + 1, K + 1), the anchor last; of rules that need none only its shape."""
        count = len(updates.reads_C)
        inner = torch.zeros(count + 1, count + 1, dtype=torch.float64)
        method, mixing = ROBUST[self.spec.robust.rule], self.spec.robust.mixing
        if method.coordinates is not None and not method.compares and mixing != "nearest":
            return inner
        base, reads = updates.base, list(updates.reads_C)
        if anchor is not None:
            moved = base.double() + anchor
            reads.append(lambda: moved)
        inner[: len(reads), : len(reads)] = gram(base, reads, updates.pairs)
        return inner

    def _view(self, round: int, inner: Tensor, weights_C: Sequence[float], liars: int) -> tuple[Tensor, View]:
        """What the rule sees, and the matrix that made it of the K updates, shape (voters, K)."""
        spec = self.spec.robust
        mix = torch.eye(len(inner) - 1, dtype=torch.float64)
        if ROBUST[spec.rule].compares or spec.mixing == "nearest":
            lengths = inner.diagonal()[:-1].clamp(min=0.0).sqrt()
            mix = mix[moving(lengths, spec.fewest(liars))]
        weights = self._weights(mix @ torch.tensor(weights_C, dtype=torch.float64), liars)
        if spec.mixing == "nearest":
            mix = nearest(mix @ inner[:-1, :-1] @ mix.T, liars) @ mix
        elif spec.mixing == "bucketing":
            mix = bucketing(len(mix), spec.bucket, generator(self.seed, "bucketing", round)) @ mix
        wide = torch.block_diag(mix, torch.ones(1, 1, dtype=torch.float64))
        return mix, View(spec, wide @ inner @ wide.T, _as_many(weights, len(mix)), liars)

    def _weights(self, weights: Tensor, liars: int) -> Tensor:
        """The recipe's, of rules that read them, none above 1 / (2 f + 1), so that f clients never hold half;
        and uniform where they rest on nothing but the clients' word, without a cap, or updates are mixed."""
        spec, count = self.spec, len(weights)
        unbounded = spec.weighting == "samples" or (
            spec.weighting not in UNCAPPED and spec.weights.cap is None
        )
        if spec.robust.rule not in WEIGHTED_RULES or spec.robust.mixing != "none" or unbounded:
            return torch.full((count,), 1.0 / count, dtype=torch.float64)
        limited = capped(normalised(weights.tolist()), count / (2 * liars + 1))
        return torch.tensor(limited, dtype=torch.float64)


def _as_many(weights: Tensor, voters: int) -> Tensor:
    if len(weights) == voters:
        return weights
    return torch.full((voters,), 1.0 / voters, dtype=torch.float64)


def _contributions(
    updates: Updates, coefficients_C: Sequence[float], remembered: Tensor | None
) -> Iterator[Contribution]:
    """Values whose weights sum to 1: the clients', and with the rest the base or what the last round agreed
    on."""
    for read, coefficient in zip(updates.reads_C, coefficients_C, strict=True):
        if coefficient != 0:
            yield Contribution(coefficient, read())
    rest = 1.0 - sum(coefficients_C)
    if abs(rest) > _NOTHING:
        base = updates.base
        yield Contribution(rest, base if remembered is None else base.double() + remembered)


def _by_coordinates(rule: Coordinates, updates: Updates, mix: Tensor, liars: int) -> Settled:
    """Entry by entry: mix, choose, average."""
    target = updates.base.double()
    tally, changed = torch.zeros(len(mix), dtype=torch.float64), 0
    for where, block in blocks(updates.base, updates.reads_C):
        voters = mix @ block
        chosen = rule(voters, liars)
        target[where] += voters.gather(0, chosen).mean(0)
        shares = torch.zeros_like(voters).scatter_(0, chosen, 1.0 / len(chosen))
        touched = (voters != 0).any(0)
        tally += shares[:, touched].sum(1)
        changed += int(touched.sum())
    coefficients = mix.T @ (tally / max(1, changed))
    return Settled(Combined(target), coefficients.tolist())


def reads_of(values: Callable[[int], Tensor], clients: Sequence[int]) -> list[Read]:
    """Readers of the clients' values, shape (numel,)."""
    return [partial(values, client) for client in clients]
