"""Layouts, classes, tables and readers below a patch."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.federation.wire import classes
from hanse.federation.wire.buckets import CHUNK, SMALLEST, exponents, in_buckets
from hanse.federation.wire.frame import WireError
from hanse.federation.wire.layout import Layout
from hanse.federation.wire.reading import Reader, squeeze, unsqueeze, varint
from hanse.federation.wire.tables import (
    cost,
    geometric,
    nearest,
    probabilities_of,
    read_table,
    table_of,
    write_table,
)


def test_a_layout_knows_where_its_tensors_lie():
    layout = Layout(("a", "b", "c"), ((2, 3), (), (0, 4)), "float32")
    assert layout.numel == 7
    assert layout.slices() == (slice(0, 6), slice(6, 7), slice(7, 7))


def test_a_layouts_digest_depends_on_names_shapes_and_dtype():
    layouts = [
        Layout(("a",), ((2, 3),), "float32"),
        Layout(("b",), ((2, 3),), "float32"),
        Layout(("a",), ((3, 2),), "float32"),
        Layout(("a",), ((6,),), "float32"),
        Layout(("a",), ((2, 3),), "bfloat16"),
        Layout(("a", "b"), ((2,), (4,)), "float32"),
    ]
    assert len({layout.digest() for layout in layouts}) == len(layouts)
    assert layouts[0].digest() == Layout(("a",), ((2, 3),), "float32").digest()


@pytest.mark.parametrize(
    "wrong", [(("a",), ((2,),), "int8"), (("a",), (), "float32"), (("a",), ((-1,),), "float32")]
)
def test_a_wrong_layout_is_refused(wrong):
    with pytest.raises(ValueError):
        Layout(*wrong)


@pytest.mark.parametrize(
    "value, expected",
    [(0, 0), (15, 15), (16, 16), (17, 16), (18, 17), (31, 23), (32, 24), (35, 24), (36, 25)],
)
def test_classes_by_hand(value, expected):
    assert classes.split(np.array([value]))[0].tolist() == [expected]


@given(st.lists(st.integers(0, 1 << 33), min_size=1, max_size=50))
def test_classes_and_raw_bits_give_numbers_back(values):
    numbers = np.array(values)
    kinds, extra = classes.split(numbers)
    packed = classes.pack_raw(numbers, extra)
    assert (classes.extra_bits(kinds) == extra).all()
    reader = Reader(memoryview(packed))
    assert classes.join(kinds, classes.unpack_raw(reader, extra)).tolist() == values
    reader.finish()
    assert kinds.max() < classes.class_count(max(values) + 1)


def test_each_class_starts_where_the_one_before_ends():
    first = classes.join(np.arange(101), np.zeros(101, dtype=np.int64))
    assert classes.split(first)[0].tolist() == list(range(101))
    assert classes.split(first[1:] - 1)[0].tolist() == list(range(100))


def test_a_table_costs_little_more_than_the_entropy():
    counts = np.random.default_rng(0).integers(0, 1000, 200)
    share = counts[counts > 0] / counts.sum()
    entropy = -(share * np.log2(share)).sum() * counts.sum()
    assert entropy <= cost(counts, probabilities_of(table_of(counts))) * (1 + 1e-6) < entropy * 1.001


def test_a_table_comes_back():
    table = table_of(np.array([3, 0, 1, 0, 0]))
    assert table.tolist() == [1 + 2, 0, 1 + 8, 0, 0]
    assert read_table(Reader(memoryview(write_table(table))), 5).tolist() == table.tolist()
    for wrong in (b"\x06\1\1\1\1\1\1", b"\x00", b"\x02\0\0", b"\x05\1\1"):
        with pytest.raises(WireError):
            read_table(Reader(memoryview(wrong)), 5)


def test_geometric_shares_by_hand():
    shares = geometric(1, 4, 18)
    assert shares[:3].tolist() == [0.25, 0.1875, 0.140625]
    assert shares[16] == np.float32(0.75**16 - 0.75**18)
    assert shares[17] == np.float32(0.75**18 - 0.75**20)
    assert geometric(1, 1 << 21, classes.class_count(1 << 21)).sum() == pytest.approx(
        1 - math.exp(-1), abs=1e-3
    )


def test_the_nearest_table_is_used_again():
    low, high = table_of(np.array([1, 1])), table_of(np.array([1, 3]))
    known = {100: low, 104: high}
    assert [nearest(known, label) is low for label in (90, 100, 102, 103)] == [True, True, True, False]
    assert nearest({}, 100) is None


def test_buckets_follow_exponents_and_small_ones_merge():
    base = np.concatenate(
        [np.full(SMALLEST, 0x3F80), np.full(3, 0x4000), np.full(SMALLEST - 3, 0xC080), [0x0000]]
    )
    ordering = in_buckets(base.astype(np.uint16), "bfloat16")
    assert [(b.label, b.start, b.stop) for b in ordering.buckets] == [
        (127, 0, SMALLEST + 1),
        (129, SMALLEST + 1, 2 * SMALLEST + 1),
    ]
    assert ordering.positions(np.arange(len(base))).tolist() == [len(base) - 1, *range(len(base) - 1)]


@pytest.mark.parametrize("entries", [1, CHUNK - 1, CHUNK, 3 * CHUNK + 5])
def test_the_bucket_order_is_that_of_one_stable_sort(entries):
    random = np.random.default_rng(0)
    base = (random.standard_normal(entries).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    ordering = in_buckets(base, "bfloat16")
    expected = np.argsort(exponents(base, "bfloat16"), kind="stable")
    assert (ordering.positions(np.arange(entries)) == expected).all()
    changed = random.random(entries) < 0.1
    places, positions = ordering.places(changed)
    assert (places == np.flatnonzero(changed[expected])).all()
    assert (positions == expected[places]).all()


@given(st.integers(0, 1 << 60))
def test_varints_come_back(value):
    assert Reader(memoryview(varint(value))).varint(1 << 60) == value


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80" * 11, b"\xff" * 10, b"\x0b"])
def test_wrong_varints_are_refused(data):
    with pytest.raises(WireError):
        Reader(memoryview(data)).varint(10)


def test_compressed_content_of_another_size_is_refused():
    packed = squeeze(b"abc" * 100, 1)
    assert bytes(unsqueeze(memoryview(packed), 300)) == b"abc" * 100
    for data, size in (
        (packed, 299),
        (packed[:-1], 300),
        (packed + b"x", 300),
        (b"", 0),
        (b"abcdefgh" * 4, 4),
    ):
        with pytest.raises(WireError):
            unsqueeze(memoryview(data), size)
