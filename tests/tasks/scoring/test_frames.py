import contextlib
import os
import struct
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.tasks.scoring import frames

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.fixture
def pipe():
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    yield read, write
    for fd in (read, write):
        with contextlib.suppress(OSError):
            os.close(fd)


@settings(max_examples=50, deadline=None)
@given(message=JSON)
def test_round_trip(message):
    read, write = os.pipe()
    try:
        frames.write(write, frames.encode(message))
        assert frames.read(read, 1 << 20) == message
    finally:
        os.close(read)
        os.close(write)


def test_lone_surrogates_travel(pipe):
    frames.write(pipe[1], frames.encode("\ud800"))
    assert frames.read(pipe[0], 100) == "\ud800"


def test_a_length_beyond_the_limit_is_refused_before_its_body_is_read(pipe):
    os.write(pipe[1], struct.pack(">I", 101))
    with pytest.raises(frames.FrameError, match="101 bytes announced, 100 allowed"):
        frames.read(pipe[0], 100, time.monotonic() + 5)


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 90_000, b"\xff", b"9" * 5000])
def test_bad_bodies(body):
    with pytest.raises(frames.FrameError):
        frames.decode(body)


def test_reading_and_writing_stop_at_the_deadline(pipe):
    for step in (
        lambda deadline: frames.read(pipe[0], 100, deadline),
        lambda deadline: frames.write(pipe[1], b"x" * 1_000_000, deadline),
    ):
        start = time.monotonic()
        with pytest.raises(TimeoutError):
            step(start + 0.05)
        assert time.monotonic() - start < 1


def test_end_of_file(pipe):
    os.write(pipe[1], b"\0\0")
    os.close(pipe[1])
    with pytest.raises(EOFError):
        frames.read(pipe[0], 100, time.monotonic() + 5)
