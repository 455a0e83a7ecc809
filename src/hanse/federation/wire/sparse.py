"""A block of a patch in the "small" coding: gaps and steps by bucket, entropy coded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import constriction
import numpy as np
from numpy.typing import NDArray

from hanse.federation.wire import classes
from hanse.federation.wire.buckets import Bucket, Ordering, in_buckets
from hanse.federation.wire.classes import Ints
from hanse.federation.wire.frame import WireError
from hanse.federation.wire.layout import Bits
from hanse.federation.wire.ordered import Signed, outward_steps, step_out
from hanse.federation.wire.reading import Reader, varint
from hanse.federation.wire.tables import (
    Probabilities,
    Table,
    Tables,
    cost,
    first_steps,
    geometric,
    model_of,
    nearest,
    probabilities_of,
    read_table,
    table_of,
    write_table,
)

BLOCK = 1 << 22
GAP_SYMBOLS = classes.class_count(BLOCK)
_GEOMETRIC, _NEW, _AGAIN = range(3)
_TABLE_BITS_A_BYTE = 4


def step_symbols(itemsize: int) -> int:
    """Symbols of a step: the classes of |step| - 1 with a sign."""
    return 2 * classes.class_count(1 << (8 * itemsize - 1))


@dataclass(frozen=True)
class Entries:
    """Changed entries in bucket order: gaps and |step| - 1 as classes and raw bits, shape (changed,)."""

    gaps: Ints
    gap_classes: Ints
    gap_extra: Ints
    sizes: Ints
    step_symbols: Ints
    step_extra: Ints


def encode_sparse(
    new: Bits, base: Bits, changed: NDArray[np.bool_], dtype: str, tables: Tables
) -> tuple[bytes, bytes]:
    """(description, body) of a block of at most BLOCK entries, arguments of shape (entries,).

    Puts the tables that it sends into `tables`.
    """
    ordering = in_buckets(base, dtype)
    buckets = ordering.buckets
    places, at = ordering.places(changed)
    starts = np.array([bucket.start for bucket in buckets])
    cuts = np.searchsorted(places, [*starts, len(base)])
    entries = _entries(outward_steps(new[at], base[at]), places, starts, cuts)
    described, jobs, planes = [], [], np.ones(len(places), dtype=np.bool_)
    for bucket, start, stop in zip(buckets, cuts[:-1], cuts[1:], strict=True):
        text, models = _describe(bucket, entries, slice(start, stop), base.itemsize, tables)
        described.append(text)
        jobs += models
        planes[start:stop] = stop - start < bucket.size
    coder = constriction.stream.stack.AnsCoder()
    for symbols, model in reversed(jobs):
        coder.encode_reverse(symbols.astype(np.int32), model)
    words = coder.get_compressed().astype("<u4")
    raw = np.concatenate([entries.gaps[planes], entries.sizes])
    extra = np.concatenate([entries.gap_extra[planes], entries.step_extra])
    return b"".join([varint(len(words)), *described]), words.tobytes() + classes.pack_raw(raw, extra)


def _entries(signed: Signed, places: Ints, starts: Ints, cuts: Ints) -> Entries:
    steps = signed.astype(np.int64)
    sizes = np.abs(steps) - 1
    step_classes, step_extra = classes.split(sizes)
    gaps = np.diff(places, prepend=-1) - 1
    filled = cuts[:-1] < cuts[1:]
    gaps[cuts[:-1][filled]] = places[cuts[:-1][filled]] - starts[filled]
    gap_classes, gap_extra = classes.split(gaps)
    return Entries(gaps, gap_classes, gap_extra, sizes, 2 * step_classes + (steps < 0), step_extra)


def _describe(
    bucket: Bucket, entries: Entries, part: slice, itemsize: int, tables: Tables
) -> tuple[bytes, list[tuple[Ints, Any]]]:
    """A bucket's count, codings and tables; and what the entropy coder gets, in decoding order."""
    count = part.stop - part.start
    head, jobs = [varint(count)], []
    if count == 0:
        return head[0], []
    gap_coding, gap_table = _GEOMETRIC, b""
    if count < bucket.size:
        symbols = entries.gap_classes[part]
        choices = {_GEOMETRIC: geometric(count, bucket.size, GAP_SYMBOLS)}
        gap_coding, gap_table, shares = _choose(symbols, choices, bucket.label, tables.gaps)
        jobs.append((symbols, model_of(shares)))
    symbols = entries.step_symbols[part]
    default = {_GEOMETRIC: first_steps(step_symbols(itemsize))}
    step_coding, step_table, shares = _choose(symbols, default, bucket.label, tables.steps)
    jobs.append((symbols, model_of(shares)))
    head += [bytes([gap_coding | step_coding << 2]), gap_table, step_table]
    return b"".join(head), jobs


def _choose(
    symbols: Ints, choices: dict[int, Probabilities], label: int, known: dict[int, Table]
) -> tuple[int, bytes, Probabilities]:
    """The cheapest coding, its table's bytes, and its probabilities. A new table becomes known."""
    counts = np.bincount(symbols, minlength=len(choices[_GEOMETRIC]))
    table = table_of(counts)
    sent = write_table(table)
    choices = {**choices, _NEW: probabilities_of(table)}
    if (again := nearest(known, label)) is not None:
        choices[_AGAIN] = probabilities_of(again)
    bits = {coding: cost(counts, shares) for coding, shares in choices.items()}
    bits[_NEW] += _TABLE_BITS_A_BYTE * len(sent)
    best = min(bits, key=lambda coding: bits[coding])
    if best == _NEW:
        known[label] = table
    return best, sent if best == _NEW else b"", choices[best]


def decode_sparse(head: Reader, body: Reader, base: Bits, dtype: str, tables: Tables) -> Bits:
    """The block that `encode_sparse` described, shape (entries,). Raises WireError for anything else."""
    ordering = in_buckets(base, dtype)
    words = np.frombuffer(body.take(4 * head.varint(2 * len(base) + 16)), dtype="<u4")
    coder = _coder(words)
    gaps, steps = [], []
    filled: list[tuple[Bucket, int]] = []
    for bucket in ordering.buckets:
        count = head.varint(bucket.size)
        if count:
            shares = _shares(head, bucket, count, base.itemsize, tables)
            if count < bucket.size:
                gaps.append(coder.decode(model_of(shares[0]), count).astype(np.int64))
            steps.append(coder.decode(model_of(shares[1]), count).astype(np.int64))
            filled.append((bucket, count))
    if not coder.is_empty():
        raise WireError("entropy-coded symbols left over")
    return _rebuild(body, base, ordering, filled, _joined(gaps), _joined(steps))


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _coder(words: NDArray[np.uint32]) -> Any:
    try:
        return constriction.stream.stack.AnsCoder(words.astype(np.uint32))
    except ValueError as error:
        raise WireError("entropy-coded symbols are damaged") from error


def _shares(
    head: Reader, bucket: Bucket, count: int, itemsize: int, tables: Tables
) -> tuple[Probabilities, Probabilities]:
    coding = head.varint(15)
    plain = geometric(count, bucket.size, GAP_SYMBOLS)
    gaps = _read_coding(head, coding & 3, plain, bucket.label, tables.gaps)
    plain = first_steps(step_symbols(itemsize))
    return gaps, _read_coding(head, coding >> 2, plain, bucket.label, tables.steps)


def _read_coding(
    head: Reader, coding: int, plain: Probabilities, label: int, known: dict[int, Table]
) -> Probabilities:
    if coding == _GEOMETRIC:
        return plain
    if coding == _NEW:
        known[label] = read_table(head, len(plain))
    table = nearest(known, label) if coding in (_NEW, _AGAIN) else None
    if table is None:
        raise WireError("a table that was never sent")
    return probabilities_of(table)


def _rebuild(
    body: Reader,
    base: Bits,
    ordering: Ordering,
    filled: list[tuple[Bucket, int]],
    gap_classes: Ints,
    step_symbols: Ints,
) -> Bits:
    classes_of_all = np.concatenate([gap_classes, step_symbols >> 1])
    values = classes.join(classes_of_all, classes.unpack_raw(body, classes.extra_bits(classes_of_all)))
    gaps, sizes = values[: len(gap_classes)], values[len(gap_classes) :] + 1
    places, used = [], 0
    for bucket, count in filled:
        if count == bucket.size:
            places.append(np.arange(bucket.start, bucket.stop))
            continue
        ranks = np.cumsum(gaps[used : used + count] + 1) - 1
        used += count
        if ranks[-1] >= bucket.size:
            raise WireError("a position outside its bucket")
        places.append(bucket.start + ranks)
    at = ordering.positions(_joined(places))
    steps = np.where(step_symbols & 1, -sizes, sizes).astype(f"i{base.itemsize}")
    out = base.copy()
    out[at] = step_out(base[at], steps)
    return out
