"""Inner products of clients' updates, in blocks: float64 sums whatever the exchange dtype.

Of LoRA those of what factors do, not of the factors: the update of a module is B A - B0 A0 = L R with
L = [B - B0, B0] and R = [A; A - A0], and <L1 R1, L2 R2> = tr((L1' L2)(R2 R1')), which needs products of size
2 r only and does not cancel where factors have hardly moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from hanse.federation.aggregation.lora import Pair

HELD = 1 << 28
"""Entries of clients' values that are held at a time."""
_COLUMNS = 1 << 14
Read = Callable[[], Tensor]
"""Reads one party's values, shape (numel,), whenever it is asked."""


def blocks(base: Tensor, reads: Sequence[Read], held: int = HELD) -> Iterator[tuple[slice, Tensor]]:
    """Where it lies and what it is: a block of all updates, float64, shape (K, block); blocks in order.

    All values are held where they are few; otherwise as many entries of each as may be, and read again.
    """
    for span in _spans(base.numel(), max(1, held // max(1, len(reads)))):
        parts = [read()[span] for read in reads]
        for inside in _spans(span.stop - span.start, _COLUMNS):
            where = slice(span.start + inside.start, span.start + inside.stop)
            start = base[where].double()
            block = torch.empty(len(parts), len(start), dtype=torch.float64)
            for row, part in zip(block, parts, strict=True):
                torch.sub(part[inside], start, out=row)
            yield where, block


def flat_gram(base: Tensor, reads: Sequence[Read], held: int = HELD) -> Tensor:
    """<d_i, d_j> of updates d = values - base, float64, shape (K, K)."""
    total = torch.zeros(len(reads), len(reads), dtype=torch.float64)
    for _, block in blocks(base, reads, held):
        total += block @ block.T
    return (total + total.T) / 2


def lora_gram(base: Tensor, reads: Sequence[Read], pairs: Sequence[Pair]) -> Tensor:
    """sum over modules of <dW_i, dW_j>, dW = B A - B0 A0, unscaled; float64, shape (K, K).

    The factors of all clients are held: they are small.
    """
    values = [read() for read in reads]
    total = torch.zeros(len(reads), len(reads), dtype=torch.float64)
    for pair in pairs:
        stacks = [_products(pair, one, base) for one in values]
        L, R = torch.stack([left for left, _ in stacks]), torch.stack([right for _, right in stacks])
        for i in range(len(stacks)):
            total[i] += ((L[i].T @ L) * (R[i] @ R.transpose(1, 2))).sum((1, 2))
    return (total + total.T) / 2


def gram(base: Tensor, reads: Sequence[Read], pairs: Sequence[Pair]) -> Tensor:
    """Of modules' changes where there are adapters, of entries' where there are none."""
    return lora_gram(base, reads, pairs) if pairs else flat_gram(base, reads)


def _products(pair: Pair, values: Tensor, base: Tensor) -> tuple[Tensor, Tensor]:
    """L (out, 2 r) and R (2 r, in) whose product is what the module has changed by."""
    B, A = (factor.double() for factor in pair.factors(values))
    B0, A0 = (factor.double() for factor in pair.factors(base))
    return torch.cat([B - B0, B0], 1), torch.cat([A, A - A0], 0)


def _spans(length: int, step: int) -> Iterator[slice]:
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))
