"""What rules lift out of LoRA factors into the base: the server's sum, and how clients follow it.

An offset is one (out, in) matrix for each adapted module, float32, flat, in name order. Its newest increment
travels as stacked factors, or dense for those modules where that is smaller; who missed one gets the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hanse.federation.aggregation.lora import Pair
from hanse.federation.payload import pack_vector, unpack_vector
from hanse.federation.wire.frame import WireError


@dataclass(frozen=True)
class Lift:
    """An offset on its way. `version`: the round that ended with it; `previous`: what `data` is to be added
    to, a stack of rank `rank`; None: `data` is the whole."""

    version: int
    previous: int | None
    rank: int
    data: bytes | memoryview


@dataclass(frozen=True)
class Offset:
    """The server's side. `total`, shape (M,); `step`: the newest increment as it travels, `rank` of its
    stacks; `holders`: clients that hold the offset `previous`, which it is added to."""

    total: Tensor
    step: Tensor
    version: int = 0
    previous: int = 0
    rank: int = 0
    holders: list[int] = field(default_factory=list)

    @classmethod
    def zeros(cls, pairs: Sequence[Pair]) -> Offset:
        return cls(torch.zeros(size_of(pairs)), torch.zeros(0))

    def grown(
        self,
        pairs: Sequence[Pair],
        lifted: Sequence[tuple[Tensor, Tensor]],
        scaling: float,
        round: int,
        holders: list[int],
    ) -> Offset:
        """After a round: scaling * left right added for each module, rounded as clients will see it."""
        rank = lifted[0][0].shape[1]
        parts = [
            (scaling * left @ right).flatten()
            if _dense(pair, rank)
            else torch.cat([(scaling * left).flatten(), right.flatten()])
            for pair, (left, right) in zip(pairs, lifted, strict=True)
        ]
        step = torch.cat(parts).float()
        return Offset(added(self.total, step, pairs, rank), step, round, self.version, rank, holders)

    def lift(self, client: int, *, whole: bool) -> Lift | None:
        """What a client is sent; None before there is an offset."""
        if self.version == 0:
            return None
        if whole or client not in self.holders:
            return Lift(self.version, None, 0, pack_vector(self.total))
        return Lift(self.version, self.previous, self.rank, pack_vector(self.step))


def followed(pairs: Sequence[Pair], held: Tensor | None, version: int, lift: Lift) -> Tensor | None:
    """A client's offset after `lift`, given the one that it holds; None where it holds another one than
    needed. Raises WireError for another size."""
    if lift.previous is None:
        return unpack_vector(lift.data, size_of(pairs))
    if version == lift.version:
        return held
    if version != lift.previous:
        return None
    size = sum(end - start for start, end in _spans(pairs, lift.rank))
    start = torch.zeros(size_of(pairs)) if held is None else held
    return added(start, unpack_vector(lift.data, size), pairs, lift.rank)


def added(total: Tensor, step: Tensor, pairs: Sequence[Pair], rank: int) -> Tensor:
    """total + step in float32: the same operations on both ends."""
    total = total.clone()
    matrices = total.split([pair.outputs * pair.inputs for pair in pairs])
    for pair, matrix, (start, end) in zip(pairs, matrices, _spans(pairs, rank), strict=True):
        part = step[start:end]
        if not _dense(pair, rank):
            left, right = part.split([pair.outputs * rank, rank * pair.inputs])
            part = (left.view(pair.outputs, rank) @ right.view(rank, pair.inputs)).flatten()
        matrix.add_(part)
    if not bool(total.isfinite().all()):
        raise WireError("a non-finite offset")
    return total


def size_of(pairs: Sequence[Pair]) -> int:
    return sum(pair.outputs * pair.inputs for pair in pairs)


def _dense(pair: Pair, rank: int) -> bool:
    return pair.outputs * pair.inputs <= rank * (pair.outputs + pair.inputs)


def _spans(pairs: Sequence[Pair], rank: int) -> Iterator[tuple[int, int]]:
    """Where each module's part of an increment lies."""
    start = 0
    for pair in pairs:
        dense, stacked = pair.outputs * pair.inputs, rank * (pair.outputs + pair.inputs)
        yield start, start + min(dense, stacked)
        start += min(dense, stacked)
