"""Patches from someone who means harm: damaged anywhere, also below the checksum."""

import random
import tracemalloc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.federation.wire.frame import WireError, decode_frame, encode_frame
from hanse.federation.wire.layout import Layout
from hanse.federation.wire.patch import changed, decode_patch, encode_patch
from hanse.federation.wire.reading import squeeze, unsqueeze, varint

LAYOUT = Layout(("a", "b", "c"), ((40, 50), (), (600,)), "bfloat16")
BASE = (torch.randn(LAYOUT.numel, generator=torch.Generator().manual_seed(0)) * 0.02).bfloat16()
NOISE = torch.randn(LAYOUT.numel, generator=torch.Generator().manual_seed(1))
NEW = (BASE.float() + 2e-5 * NOISE).bfloat16()
DENSE = (BASE.float() + NOISE).bfloat16()
PROFILES = ["small", "fast", "raw"]


def refused_or_right(data: bytes, new: torch.Tensor = NEW) -> bool:
    """Whether it was refused; anything but the right values or a WireError fails."""
    try:
        out = decode_patch(data, BASE, LAYOUT)
    except WireError:
        return True
    assert not changed(out, new).any()
    return False


def opened(patch: bytes) -> tuple[dict, bytes, bytes]:
    """(fields, descriptions as they were before zstd, bodies)."""
    frame = decode_frame(patch, kind="patch", max_bytes=len(patch))
    head, body = frame.buffers
    plain = bytes(unsqueeze(head, frame.fields["described"])) if len(head) else b""
    return dict(frame.fields), plain, bytes(body)


def closed(fields: dict, head: bytes, body: bytes) -> bytes:
    """A frame with a right checksum around whatever is given."""
    return encode_frame("patch", {**fields, "described": len(head)}, [squeeze(head, 1), body])


@pytest.mark.parametrize("profile", PROFILES)
def test_every_changed_byte_and_every_cut_is_refused(profile):
    patch = encode_patch(NEW, BASE, LAYOUT, profile=profile)
    for place in range(len(patch)):
        damaged = bytearray(patch)
        damaged[place] ^= 1 + place % 255
        assert refused_or_right(bytes(damaged))
        assert refused_or_right(patch[:place])
    assert refused_or_right(patch + b"\0")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_garbage_is_refused(data):
    assert refused_or_right(data)


@pytest.mark.parametrize("new", [NEW, DENSE], ids=["sparse", "dense"])
@pytest.mark.parametrize("profile", ["small", "fast"])
def test_damage_below_the_checksum_is_refused(profile, new):
    fields, head, body = opened(encode_patch(new, BASE, LAYOUT, profile=profile))
    assert not refused_or_right(closed(fields, head, body), new)
    for place in range(len(head)):
        for change in (1, 2, 4, 8, 16, 32, 64, 128, 255):
            damaged = head[:place] + bytes([head[place] ^ change]) + head[place + 1 :]
            refused_or_right(closed(fields, damaged, body), new)
        refused_or_right(closed(fields, head[:place], body), new)
    for place in range(0, len(body), 1 + len(body) // 600):
        damaged = body[:place] + bytes([body[place] ^ (1 + place % 255)]) + body[place + 1 :]
        refused_or_right(closed(fields, head, damaged), new)
        refused_or_right(closed(fields, head, body[:place]), new)
    assert refused_or_right(closed(fields, head + b"\0", body), new)
    assert refused_or_right(closed(fields, head, body + b"\0"), new)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from(["small", "fast"]))
def test_many_damages_below_the_checksum_are_refused(seed, profile):
    chance = random.Random(seed)
    fields, head, body = opened(encode_patch(NEW, BASE, LAYOUT, profile=profile))
    pieces = [bytearray(head), bytearray(body)]
    for _ in range(chance.randint(1, 8)):
        piece = chance.choice(pieces)
        start = chance.randrange(len(piece))
        kind = chance.randrange(3)
        if kind == 0:
            piece[start] = chance.randrange(256)
        elif kind == 1:
            piece[start:start] = chance.randbytes(chance.randint(1, 9))
        else:
            del piece[start : start + chance.randint(1, min(9, len(piece) - 1))]
        if not piece:
            piece += b"\0"
    refused_or_right(closed(fields, *map(bytes, pieces)))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=400), st.sampled_from(["small", "fast", "raw"]))
def test_garbage_below_the_checksum_is_refused(head, body, profile):
    fields, _, _ = opened(encode_patch(NEW, BASE, LAYOUT))
    assert refused_or_right(closed({**fields, "profile": profile}, head, body))


@pytest.mark.parametrize(
    "wrong",
    [
        {"patch": 2},
        {"patch": "1"},
        {"profile": "tiny"},
        {"profile": ["small"]},
        {"base": None},
        {"layout": 3},
        {"new": "0" * 64},
        {"new": 1},
        {"described": -1},
        {"described": 1 << 60},
        {"described": 1.0},
        {"described": True},
    ],
)
def test_wrong_fields_are_refused(wrong):
    frame = decode_frame(patch := encode_patch(NEW, BASE, LAYOUT), kind="patch", max_bytes=len(patch))
    assert refused_or_right(encode_frame("patch", {**frame.fields, **wrong}, frame.buffers))


def test_other_buffers_or_kinds_are_refused():
    fields, head, body = opened(encode_patch(NEW, BASE, LAYOUT))
    for buffers in ([], [body], [squeeze(head, 1), body, b""]):
        assert refused_or_right(encode_frame("patch", fields, buffers))
    assert refused_or_right(encode_frame("upload", fields, [squeeze(head, 1), body]))
    for wrong in (memoryview(b"abcd")[::2], "text", 3, None):
        with pytest.raises(WireError):
            decode_patch(wrong, BASE, LAYOUT)


def test_claimed_sizes_allocate_nothing():
    fields, _, _ = opened(encode_patch(NEW, BASE, LAYOUT))
    bomb = squeeze(bytes(1 << 28), 1)
    heads = [
        varint(2000) + bytes([0]) + varint(1 << 40),  # entropy-coded words
        varint(1 << 50),  # changed entries
        varint(2000) + bytes([1]) + varint(2000) + varint(1) + varint(len(bomb)) + varint(0) + varint(10_000),
        varint(2000) + bytes([2]) + varint(len(bomb)),
    ]
    sent = [closed(fields, head, body) for head in heads for body in (b"", bomb)]
    sent += [encode_frame("patch", {**fields, "described": 1 << 28}, [bomb, b""])]
    sent += [encode_frame("patch", {**fields, "described": 100}, [bomb, b""])]
    tracemalloc.start()
    for data in sent:
        assert refused_or_right(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20
