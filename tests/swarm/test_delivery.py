"""Bundles: what is honest travels unchanged, and anything else is a WireError."""

from __future__ import annotations

import hashlib
import json
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.federation.wire.frame import WireError, encode_frame
from hanse.swarm.delivery import Bundle, Delivery, Limits, Text, Tokens

LIMITS = Limits(deliveries=4, tokens=6, vocabulary=50)


def tokens_of(n: int) -> st.SearchStrategy[Tokens]:
    ids = st.lists(st.integers(0, 49), min_size=n, max_size=n).map(tuple)
    claims = st.none() | st.lists(st.floats(-50, 0, width=32), min_size=n, max_size=n).map(
        lambda x: np.array(x, np.float32)
    )
    return st.builds(Tokens, ids, claims)


NUMBERS = st.integers(0, (1 << 63) - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
COMPLETIONS = st.integers(1, 6).flatmap(tokens_of) | st.builds(Text, NAMES)
BUNDLES = st.tuples(NUMBERS, NUMBERS).flatmap(
    lambda n: st.builds(
        Bundle,
        st.just(n[0]),
        st.just(n[1]),
        st.lists(
            st.builds(
                Delivery,
                NAMES,
                NUMBERS,
                st.just(n[1]),
                NUMBERS,
                NAMES,
                st.sampled_from(["stop", "length"]),
                COMPLETIONS,
            ),
            max_size=4,
        ).map(tuple),
    )
)


def same(a: Bundle, b: Bundle) -> bool:
    def plain(bundle: Bundle) -> list[object]:
        said = [
            (c.ids, None if c.logp is None else c.logp.tolist()) if isinstance(c, Tokens) else c.text
            for c in (d.completion for d in bundle.deliveries)
        ]
        heads = [(d.problem, d.slot, d.node, d.seed, d.policy, d.finish) for d in bundle.deliveries]
        return [bundle.round, bundle.node, said, heads]

    return plain(a) == plain(b)


@given(BUNDLES)
def test_round_trip(bundle: Bundle):
    assert same(Bundle.from_bytes(bundle.to_bytes(), LIMITS), bundle)


def opens(data: bytes) -> bool:
    """Whether it is a bundle. Anything else that is raised fails the test."""
    try:
        bundle = Bundle.from_bytes(data, LIMITS)
    except WireError:
        return False
    assert len(bundle.deliveries) <= LIMITS.deliveries
    for d in bundle.deliveries:
        assert d.node == bundle.node and d.finish in ("stop", "length")
        assert min(d.slot, d.seed, bundle.round, bundle.node) >= 0
        if isinstance(d.completion, Tokens):
            assert 1 <= len(d.completion.ids) <= LIMITS.tokens and max(d.completion.ids) < LIMITS.vocabulary
        else:
            assert len(d.completion.text) <= LIMITS.characters
    return True


@given(st.binary(max_size=200))
def test_random_bytes_are_no_bundle(data: bytes):
    assert not opens(data)


@given(BUNDLES, st.data())
def test_damaged_bundles(bundle: Bundle, data: st.DataObject):
    """The checksum finds every change of a byte."""
    whole = bytearray(bundle.to_bytes())
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    assert not opens(bytes(whole))
    assert not opens(bytes(bundle.to_bytes()[:at]))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=2),
    max_leaves=4,
)
FIELD = JSON | st.sampled_from(["round", "node", "deliveries", "tokens", "text", "stop", "length", 0, True])
HEADER = st.lists(FIELD, min_size=6, max_size=8) | st.tuples(
    st.text(max_size=4), NUMBERS, NUMBERS, st.text(max_size=4), FIELD, FIELD, FIELD
).map(list)


@given(
    st.dictionaries(st.sampled_from(["round", "node", "deliveries", "x"]), FIELD, max_size=4),
    st.lists(st.binary(max_size=40), max_size=5),
)
def test_any_fields_in_a_valid_frame(fields, buffers):
    """Whoever makes the bytes can also make the checksum."""
    opens(encode_frame("bundle", fields, buffers))


@given(st.lists(HEADER, max_size=5), st.lists(st.binary(max_size=40), max_size=8))
def test_any_deliveries_in_a_valid_frame(headers, buffers):
    opens(encode_frame("bundle", {"round": 0, "node": 1, "deliveries": headers}, buffers))


def sealed(header: bytes, body: bytes = b"") -> bytes:
    """A frame with any header."""
    digest = hashlib.sha256(header + body).digest()
    return struct.pack(">4sBI32s", b"HNSE", 1, len(header), digest) + header + body


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 5000,
        b"\xff",
        b"{}",
        b'{"kind": "bundle", "fields": {}, "buffers": [NaN]}',
        b'{"kind": "bundle", "fields": {"node": 1e999}, "buffers": []}',
        b'{"kind": ["bundle"], "fields": {}, "buffers": []}',
        b'{"kind": "bundle", "fields": {"node": ' + b"9" * 5000 + b'}, "buffers": []}',
        b'{"kind": "bundle", "fields": {}, "buffers": [true]}',
        b'{"kind": "bundle", "fields": {}, "buffers": [999999999999]}',
    ],
)
def test_headers_made_to_hurt(header: bytes):
    assert not opens(sealed(header))


def bundle_of(buffers: list[bytes], *header: object) -> bytes:
    named = ["p", 0, 0, "now", *header]
    return encode_frame("bundle", {"round": 0, "node": 1, "deliveries": [named]}, buffers)


def ids(*values: int) -> bytes:
    return np.array(values, "<u4").tobytes()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (bundle_of([ids(1, 49)], "stop", "tokens", False), True),
        (bundle_of([ids(1, 50)], "stop", "tokens", False), False),
        (bundle_of([ids(1, 0xFFFFFFFF)], "stop", "tokens", False), False),
        (bundle_of([b""], "stop", "tokens", False), False),
        (bundle_of([ids(*range(6))], "stop", "tokens", False), True),
        (bundle_of([ids(*range(7))], "stop", "tokens", False), False),
        (bundle_of([ids(1)[:3]], "stop", "tokens", False), False),
        (bundle_of([ids(1), b"\0\0\0\0"], "stop", "tokens", True), True),
        (bundle_of([ids(1), b"\0\0\0"], "stop", "tokens", True), False),
        (bundle_of([ids(1), b"\0\0\xc0\x7f"], "stop", "tokens", True), False),  # NaN
        (bundle_of([ids(1), b"\0\0\x80\xff"], "stop", "tokens", True), False),  # -inf
        (bundle_of([ids(1)], "stop", "tokens", True), False),
        (bundle_of([ids(1), ids(1)], "stop", "tokens", False), False),
        (bundle_of([], "stop", "tokens", False), False),
        (bundle_of([b"ab"], "stop", "text", False), True),
        (bundle_of([b"\xff"], "stop", "text", False), False),
        (bundle_of([b"\xed\xa0\x80"], "stop", "text", False), False),  # a surrogate
        (bundle_of([b"a" * 384], "stop", "text", False), True),
        (bundle_of([b"a" * 385], "stop", "text", False), False),
        (bundle_of([ids(1)], "ended", "tokens", False), False),
        (bundle_of([ids(1)], "stop", "answer", False), False),
        (bundle_of([ids(1)], "stop", "tokens", 0), False),
    ],
)
def test_limits(data: bytes, expected: bool):
    assert opens(data) == expected


def test_more_deliveries_than_are_due():
    one = Delivery("p", 0, 1, 0, "now", "stop", Tokens((1,)))
    assert opens(Bundle(0, 1, (one,) * 4).to_bytes())
    assert not opens(Bundle(0, 1, (one,) * 5).to_bytes())


def test_nothing_large_is_allocated_for_what_is_refused():
    """A megabyte of header, a body far beyond the limits, and lengths that promise more than there is."""
    huge = json.dumps({"kind": "bundle", "fields": {}, "buffers": [0] * 300_000}).encode()
    for data in (
        sealed(huge),
        sealed(b"{}", bytes(8 << 20)),
        sealed(b'{"kind": "bundle", "fields": {}, "buffers": [1099511627776]}'),
        b"HNSE" + bytes(1 << 20),
    ):
        tracemalloc.start()
        assert not opens(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()


def test_a_text_with_half_a_character_is_sent_as_a_question_mark():
    """Decoded tokens may hold a lone surrogate; UTF-8 cannot."""
    made = Bundle(0, 1, (Delivery("p", 0, 1, 0, "now", "stop", Text("a\ud800b")),))
    (d,) = Bundle.from_bytes(made.to_bytes(), LIMITS).deliveries
    assert d.completion == Text("a?b")


def test_a_large_round_is_within_its_limits():
    """8192 headers are more than the megabyte that other messages may have."""
    many = Delivery("problem", 0, 0, 1 << 62, "d" * 64, "stop", Tokens((1, 2)))
    bundle = Bundle(1, 0, (many,) * 8192)
    data = bundle.to_bytes()
    assert Bundle.from_bytes(data, Limits(deliveries=8192, tokens=6, vocabulary=50)) == bundle
    with pytest.raises(WireError, match="header"):
        Bundle.from_bytes(data, Limits(deliveries=16, tokens=1 << 10, vocabulary=50))


def test_a_refusal_is_no_longer_than_a_line():
    """It goes to a log, and JSON's numbers have up to 4300 digits."""
    data = encode_frame("bundle", {"round": 1, "node": int("9" * 4000), "deliveries": []})
    with pytest.raises(WireError) as caught:
        Bundle.from_bytes(data, LIMITS)
    assert len(str(caught.value)) < 100
