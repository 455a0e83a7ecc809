import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.federation.wire.frame import WireError, decode_frame, encode_frame, field

MAX = 1 << 16
GOOD = encode_frame("note", {"round": 3}, [b"abc", b""])


def test_a_frame_comes_back_as_it_was_sent():
    frame = decode_frame(GOOD, kind="note", max_bytes=MAX)
    assert frame.fields == {"round": 3}
    assert [bytes(b) for b in frame.buffers] == [b"abc", b""]


@given(st.binary(max_size=300))
def test_garbage_is_refused(data):
    with pytest.raises(WireError):
        decode_frame(data, kind="note", max_bytes=MAX)


@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_any_changed_byte_is_noticed(place, change):
    damaged = bytearray(GOOD)
    damaged[place] ^= change
    with pytest.raises(WireError):
        decode_frame(bytes(damaged), kind="note", max_bytes=MAX)


@given(st.integers(0, len(GOOD) - 1))
def test_a_cut_message_is_refused(length):
    with pytest.raises(WireError):
        decode_frame(GOOD[:length], kind="note", max_bytes=MAX)


def test_sizes_are_checked_before_anything_is_read():
    with pytest.raises(WireError, match="expected"):
        decode_frame(GOOD, kind="note", max_bytes=len(GOOD) - 1)
    huge = GOOD[:5] + struct.pack(">I", 0xFFFFFFFF) + GOOD[9:]
    with pytest.raises(WireError, match="header of"):
        decode_frame(huge, kind="note", max_bytes=MAX)


def test_another_kind_and_another_type_are_refused():
    with pytest.raises(WireError, match="expected 'other'"):
        decode_frame(GOOD, kind="other", max_bytes=MAX)
    frame = decode_frame(GOOD, kind="note", max_bytes=MAX)
    with pytest.raises(WireError, match="'round'"):
        field(frame, "round", str)
    with pytest.raises(WireError, match="'absent'"):
        field(frame, "absent", int)


def test_non_finite_fields_cannot_be_sent():
    with pytest.raises(ValueError, match="Out of range"):
        encode_frame("note", {"x": float("nan")})
