"""The blocks of a patch: a tensor, or at most BLOCK entries of it, each in the coding that suits it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hanse.federation.wire.frame import WireError
from hanse.federation.wire.layout import Bits, Layout
from hanse.federation.wire.plain import (
    decode_fast,
    decode_planes,
    decode_raw,
    encode_fast,
    encode_planes,
    encode_raw,
)
from hanse.federation.wire.reading import Reader, varint
from hanse.federation.wire.sparse import BLOCK, decode_sparse, encode_sparse
from hanse.federation.wire.tables import Tables

_SMALL, _FAST, _PLANES, _RAW = range(4)
_DENSE_FROM = 0.25


def blocks_of(layout: Layout) -> Iterator[slice]:
    """Slices of the flat vector, in order; a tensor without entries has none."""
    for part in layout.slices():
        for start in range(part.start, part.stop, BLOCK):
            yield slice(start, min(start + BLOCK, part.stop))


def encode_blocks(new: Bits, base: Bits, layout: Layout, profile: str) -> tuple[bytes, bytes]:
    """(descriptions, bodies) of all blocks; values of shape (numel,), profile "small" or "fast".

    A description starts with the number of changed entries; where there is one, a byte names the coding.
    """
    heads, bodies, tables = [], [], Tables()
    for part in blocks_of(layout):
        head, body, tables = _encode_block(new[part], base[part], layout.dtype, profile, tables)
        heads.append(head)
        bodies.append(body)
    return b"".join(heads), b"".join(bodies)


def _encode_block(
    new: Bits, base: Bits, dtype: str, profile: str, tables: Tables
) -> tuple[bytes, bytes, Tables]:
    mask = new != base
    count = int(np.count_nonzero(mask))
    if count == 0:
        return varint(0), b"", tables
    after = tables.copy()
    if profile == "small":
        choices = {_SMALL: encode_sparse(new, base, mask, dtype, after)}
    else:
        choices = {_FAST: encode_fast(new, base, mask)}
    if count > _DENSE_FROM * len(base):
        choices |= {_PLANES: encode_planes(new), _RAW: encode_raw(new)}
    best = min(choices, key=lambda coding: sum(map(len, choices[coding])))
    head, body = choices[best]
    # The receiver never sees the tables of a coding that was not taken.
    return varint(count) + bytes([best]) + head, body, after if best == _SMALL else tables


def decode_blocks(head: Reader, body: Reader, base: Bits, layout: Layout) -> Iterator[tuple[slice, Bits]]:
    """(slice of the flat vector, its bit patterns), block by block. Raises WireError for anything else."""
    tables = Tables()
    for part in blocks_of(layout):
        old = base[part]
        count = head.varint(len(old))
        block = _decode_block(head, body, old, layout.dtype, tables) if count else old
        if int(np.count_nonzero(block != old)) != count:
            raise WireError(f"another number of changed entries than {count}")
        yield part, block
    head.finish()
    body.finish()


def _decode_block(head: Reader, body: Reader, base: Bits, dtype: str, tables: Tables) -> Bits:
    coding = head.varint(_RAW)
    if coding == _SMALL:
        return decode_sparse(head, body, base, dtype, tables)
    if coding == _FAST:
        return decode_fast(head, body, base)
    return decode_planes(head, body, base) if coding == _PLANES else decode_raw(body, base)
