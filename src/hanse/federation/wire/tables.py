"""Distributions that both ends build alike, and their transport.

A table gives each symbol a byte: 0 where it is absent, else 1 + round(4 log2(1 / frequency)). The rounding
costs less than 0.002 bit a symbol. Probabilities come from exact constants, products and powers of two, the
same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import constriction
import numpy as np
from numpy.typing import NDArray

from hanse.federation.wire.classes import SUB
from hanse.federation.wire.frame import WireError
from hanse.federation.wire.reading import Reader, varint

Table = NDArray[np.uint8]
Counts = NDArray[np.int64]
Probabilities = NDArray[np.float32]

_QUARTERS = np.array([1.0, 0.8408964152537145, 0.7071067811865476, 0.5946035575013605])
_ABSENT_BITS = 24.0
_LEAST_OF_LAST = np.float32(2.0**-12)


def table_of(counts: Counts) -> Table:
    """The table of observed counts, shape (symbols,)."""
    with np.errstate(divide="ignore"):
        bits = np.log2(counts.sum() / counts)
    return np.where(counts > 0, 1 + np.rint(4 * np.minimum(bits, 60)), 0).astype(np.uint8)


def probabilities_of(table: Table) -> Probabilities:
    """Unnormalised probabilities of a table, shape (symbols,)."""
    quarters = table.astype(np.int64) - 1
    values = np.ldexp(_QUARTERS[quarters & 3], -(quarters >> 2))
    return np.where(table > 0, values, 0).astype(np.float32)


def geometric(changed: int, size: int, symbols: int) -> Probabilities:
    """Class probabilities of the gap between changed entries where `changed` of `size` are, shape (symbols,).

    By products alone: a library's power function may differ between machines.
    """
    squares = [1 - changed / size]
    for _ in range((symbols - SUB) // SUB):
        squares.append(squares[-1] * squares[-1])
    powers = np.multiply.accumulate(np.repeat(np.array(squares)[:, None], 2 * SUB - 1, axis=1), axis=1)
    survival = np.concatenate([[1.0], powers[0, : SUB - 1], powers[:, SUB - 1 :].ravel()])[: symbols + 1]
    shares: Probabilities = (survival[:-1] - survival[1:]).astype(np.float32)
    return shares


def cost(counts: Counts, probabilities: Probabilities) -> float:
    """Bits that the counted symbols take under (unnormalised) probabilities."""
    seen = counts > 0
    values = probabilities[seen] / probabilities.sum()
    with np.errstate(divide="ignore"):
        return float(counts[seen] @ np.minimum(-np.log2(values), _ABSENT_BITS))


def model_of(probabilities: Probabilities) -> Any:
    """The entropy coder's model; symbols of probability zero keep a tiny share.

    The coder's rounding may leave nothing for the last symbol, so it gets a share that survives it.
    """
    kept = probabilities.copy()
    kept[-1] = max(kept[-1], kept.max() * _LEAST_OF_LAST)
    return constriction.stream.model.Categorical(kept, perfect=False)


def write_table(table: Table) -> bytes:
    """A table's bytes up to its last present symbol."""
    present = np.flatnonzero(table)
    length = int(present[-1]) + 1
    return varint(length) + table[:length].tobytes()


def read_table(reader: Reader, symbols: int) -> Table:
    """A table of shape (symbols,). Raises WireError for a longer one, or one without a symbol."""
    length = reader.varint(symbols)
    table = np.zeros(symbols, dtype=np.uint8)
    table[:length] = np.frombuffer(reader.take(length), dtype=np.uint8)
    if not table.any():
        raise WireError("a table without a symbol")
    return table


@dataclass
class Tables:
    """The latest table for each bucket: later tensors may use them again."""

    gaps: dict[int, Table] = field(default_factory=dict)
    steps: dict[int, Table] = field(default_factory=dict)

    def copy(self) -> Tables:
        """The same tables; those that join one don't join the other."""
        return Tables(dict(self.gaps), dict(self.steps))


def nearest(known: dict[int, Table], label: int) -> Table | None:
    """The table of the bucket with the nearest label, the lower of two; None where there is none."""
    return known[min(known, key=lambda other: (abs(other - label), other))] if known else None


@cache
def first_steps(symbols: int) -> Probabilities:
    """What stands for the steps before a table was sent, halving with every class; shape (symbols,)."""
    return np.ldexp(1.0, -np.minimum(np.arange(symbols) // 2, 40)).astype(np.float32)
