"""Quantised updates: bounds, round trips, garbage."""

from __future__ import annotations

import struct
import tracemalloc
import zlib

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanse.federation.wire.frame import WireError
from hanse.federation.wire.quantised import BLOCK, Quantised, decode_quantised, encode_quantised, quantise


def same(a: Quantised, b: Quantised) -> bool:
    tensors = ("positions", "codes", "scales")
    return a.bits == b.bits and all(torch.equal(getattr(a, name), getattr(b, name)) for name in tensors)


def update_of(numel: int, share: float, bits: int, seed: int = 0) -> Quantised:
    random = torch.Generator().manual_seed(seed)
    positions = (torch.rand(numel, generator=random) < share).nonzero().squeeze(1)
    return quantise(torch.randn(len(positions), generator=random) * 1e-3, positions, bits)


def test_levels_by_hand():
    update = quantise(torch.tensor([3.0, -3.0, 0.9, -1.1, 0.1]), torch.arange(5), 2)
    assert update.codes.tolist() == [3, 0, 2, 1, 2]
    assert update.changes().tolist() == pytest.approx([3.0, -3.0, 1.0, -1.0, 1.0])
    assert update.scales.tolist() == [3.0]


def test_each_block_has_a_scale():
    changes = torch.cat([torch.full((BLOCK,), 2.0), torch.full((3,), -0.5)])
    update = quantise(changes, torch.arange(BLOCK + 3), 4)
    assert update.scales.tolist() == [2.0, 0.5]
    assert torch.equal(update.changes(), changes)


@given(st.lists(st.floats(-1e6, 1e6, width=32), max_size=600), st.sampled_from([2, 4, 8]))
def test_no_change_is_off_by_more_than_half_a_level(values, bits):
    changes = torch.tensor([v if abs(v) > 1e-30 else 0.0 for v in values])
    update = quantise(changes, torch.arange(len(values)), bits)
    half = update.scales.repeat_interleave(BLOCK)[: len(values)] / ((1 << bits) - 1)
    assert bool(((update.changes() - changes).abs() <= half * (1 + 1e-4)).all())


@given(
    st.sets(st.integers(0, 300_000), max_size=60),
    st.integers(0, 100_000),
    st.sampled_from([2, 4, 8]),
    st.integers(0, 2**32),
)
def test_what_arrives_is_what_was_sent(places, room, bits, seed):
    positions = torch.tensor(sorted(places), dtype=torch.int64)
    changes = torch.randn(len(places), generator=torch.Generator().manual_seed(seed))
    update = quantise(changes, positions, bits)
    numel = max(places, default=0) + 1 + room
    assert same(decode_quantised(encode_quantised(update), numel), update)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("numel", [1, 255, 256, 257, 70_000])
def test_dense_and_empty_updates(numel, bits):
    for share in (1.1, -1.0):
        update = update_of(numel, share, bits)
        assert len(update.codes) in (0, numel)
        assert same(decode_quantised(encode_quantised(update), numel), update)


def test_a_lone_entry_behind_a_long_gap_costs_few_bytes():
    position = torch.tensor([9_999_999])
    data = encode_quantised(quantise(torch.ones(1), position, 8))
    assert len(data) < 200
    assert decode_quantised(data, 10_000_000).positions.tolist() == [9_999_999]
    with pytest.raises(WireError, match="outside"):
        decode_quantised(data, 9_999_999)


@given(st.binary(max_size=200), st.integers(0, 1000))
def test_garbage_is_refused(data, numel):
    with pytest.raises(WireError):
        decode_quantised(data, numel)


@given(st.data())
def test_a_damaged_update_is_refused_or_read_as_some_update(data):
    good = bytearray(encode_quantised(update_of(2000, 0.1, 4)))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    try:
        read = decode_quantised(bytes(good[: data.draw(st.integers(0, len(good)))]), 2000)
    except WireError:
        return
    assert bool((read.positions.diff() > 0).all())
    assert len(read.codes) == len(read.positions) <= 2000
    assert int(read.positions[-1]) < 2000
    assert bool(read.changes().isfinite().all())


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), -1.0], ids=str)
def test_impossible_scales_are_refused(scale):
    update = update_of(100, 0.5, 4)
    bad = Quantised(update.positions, update.codes, torch.full_like(update.scales, scale), 4)
    with pytest.raises(WireError, match="scales"):
        decode_quantised(encode_quantised(bad), 100)


def test_a_small_message_cannot_make_the_reader_allocate_much():
    bomb = zlib.compress(bytes(50_000_000), 9)
    n = 1000
    head = struct.pack("<BQQ", 8, n, len(bomb))
    data = head + bomb + bytes(n) + np.ones(-(-n // BLOCK), "<f4").tobytes()
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            decode_quantised(data, 100_000)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("n", [2**63, 2**64 - 1, 101])
def test_more_entries_than_there_are_parameters_are_refused(n):
    with pytest.raises(WireError, match="add up"):
        decode_quantised(struct.pack("<BQQ", 4, n, 0) + bytes(100), 100)
