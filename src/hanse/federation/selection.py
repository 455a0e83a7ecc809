"""Which of a client's changed entries it sends, and what becomes of the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hanse.federation.wire.dense import DTYPES
from hanse.federation.wire.layout import Bits
from hanse.federation.wire.ordered import ordered
from hanse.federation.wire.patch import changed

CHUNK = 4096
"""SparseLoCo's chunk (2508.15706): 64 x 64."""


@dataclass(frozen=True)
class Change:
    """What a client could send. `target` float32: the values that it wants the receiver to have; `base`:
    what the receiver has, `cast`: the target in the exchange dtype; all flat, shape (numel,)."""

    target: Tensor
    base: Tensor
    cast: Tensor

    @classmethod
    def of(cls, target: Tensor, base: Tensor, dtype: str) -> Change:
        return cls(target, base, target.to(DTYPES[dtype]))

    @property
    def moved(self) -> Tensor:
        """float32 differences, shape (numel,)."""
        return self.target - self.base.float()

    @property
    def changed(self) -> Tensor:
        """Where the exchanged value differs, shape (numel,)."""
        return changed(self.cast, self.base)


Select = Callable[[Change, Tensor, int, Sequence[int]], Tensor]
"""(change, positions of changed entries, how many, sizes of the tensors) -> positions to send."""


def by_float32(change: Change, moving: Tensor, count: int, sizes: Sequence[int]) -> Tensor:
    """The largest changes before the cast: those that carry the energy."""
    return _largest(change.moved.abs()[moving], moving, count)


def by_cast(change: Change, moving: Tensor, count: int, sizes: Sequence[int]) -> Tensor:
    """The largest changes after the cast (as published): one step of a large weight looks large."""
    return _largest((change.cast.float() - change.base.float()).abs()[moving], moving, count)


def by_ulp(change: Change, moving: Tensor, count: int, sizes: Sequence[int]) -> Tensor:
    """The largest changes in units in the last place; ties by the float32 change."""
    steps = (_order(change.cast[moving]) - _order(change.base[moving])).abs().double()
    moved = change.moved.abs()[moving].double()
    return _largest(steps + moved / (moved.max() * 2 + 1e-300), moving, count)


def by_module(change: Change, moving: Tensor, count: int, sizes: Sequence[int]) -> Tensor:
    """Whole tensors in order of energy per changed entry; the largest changes within the last one."""
    bounds = torch.tensor(sizes).cumsum(0)
    module = torch.bucketize(moving, bounds, right=True)
    energy = change.moved[moving].double().square()
    total = torch.zeros(len(sizes), dtype=torch.float64).index_add_(0, module, energy)
    entries = torch.bincount(module, minlength=len(sizes))
    rank = torch.empty(len(sizes), dtype=torch.int64)
    rank[(total / entries.clamp(min=1)).argsort(descending=True, stable=True)] = torch.arange(len(sizes))
    inside = change.moved[moving].abs().argsort(descending=True, stable=True)
    order = inside[rank[module[inside]].argsort(stable=True)]
    return moving[order[:count]].sort().values


def by_chunk(change: Change, moving: Tensor, count: int, sizes: Sequence[int]) -> Tensor:
    """The largest changes of every chunk of 4096 entries, the same number in each (SparseLoCo)."""
    numel = change.target.numel()
    chunks = -(-numel // CHUNK)
    score = torch.full((chunks * CHUNK,), -1.0)
    score[moving] = change.moved.abs()[moving]
    each = min(CHUNK, -(-count // chunks))
    values, places = score.view(chunks, CHUNK).topk(each)
    flat = (places + torch.arange(chunks).unsqueeze(1) * CHUNK)[values >= 0]
    return _largest(change.moved.abs()[flat], flat, count)


def _order(values: Tensor) -> Tensor:
    kinds = (torch.int16, np.uint16) if values.itemsize == 2 else (torch.int32, np.uint32)
    bits: Bits = values.view(kinds[0]).numpy().view(kinds[1])
    return torch.from_numpy(ordered(bits).astype(np.int64))


def _largest(score: Tensor, positions: Tensor, count: int) -> Tensor:
    """The positions of the `count` largest scores, in ascending order; equal scores by position."""
    if count >= len(positions):
        return positions.sort().values
    return positions[score.argsort(descending=True, stable=True)[:count]].sort().values


SELECTIONS: dict[str, Select] = {
    "float32": by_float32,
    "cast": by_cast,
    "ulp": by_ulp,
    "module": by_module,
    "chunk": by_chunk,
}


def select(change: Change, count: int | None, rule: str, sizes: Sequence[int]) -> Tensor:
    """Positions of the at most `count` changed entries that are sent (None: all), ascending, int64."""
    moving = change.changed.nonzero().squeeze(1)
    if count is None or count >= len(moving):
        return moving
    return SELECTIONS[rule](change, moving, count, sizes) if count > 0 else moving[:0]
