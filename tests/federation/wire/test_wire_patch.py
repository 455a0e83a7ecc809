import hashlib
import struct

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.federation.wire.frame import WireError, decode_frame
from hanse.federation.wire.layout import DTYPES, Layout
from hanse.federation.wire.patch import (
    changed,
    decode_patch,
    digest_of_values,
    encode_patch,
    largest_patch,
)

PROFILES = ["small", "fast", "raw"]
EVERY = np.arange(1 << 16, dtype=np.uint16)


def tensor(bits: np.ndarray, dtype: str) -> torch.Tensor:
    signed = np.ascontiguousarray(bits).view(f"i{bits.itemsize}")
    return torch.from_numpy(signed).view(DTYPES[dtype])


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and not bool(changed(a, b).any())


def flat(n: int, dtype: str = "bfloat16") -> Layout:
    return Layout(("w",), ((n,),), dtype)


def weights(layout: Layout, seed: int = 0) -> torch.Tensor:
    values = torch.randn(layout.numel, generator=torch.Generator().manual_seed(seed)) * 0.02
    return values.to(DTYPES[layout.dtype])


def update(base: torch.Tensor, scale: float, seed: int = 1) -> torch.Tensor:
    step = torch.randn(base.numel(), generator=torch.Generator().manual_seed(seed)) * scale
    return (base.float() + step).to(base.dtype)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("target", [0x0000, 0x8000, 0x0001, 0x3F80, 0x7F80, 0xFF80, 0x7FC0, 0xFFFF, None])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_every_16_bit_pattern_comes_back(profile, target, dtype):
    layout = flat(1 << 16, dtype)
    other = np.random.default_rng(0).permutation(EVERY) if target is None else np.full_like(EVERY, target)
    for new, base in ((EVERY, other), (other, EVERY)):
        new, base = tensor(new, dtype), tensor(base, dtype)
        assert same(decode_patch(encode_patch(new, base, layout, profile=profile), base, layout), new)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_pattern_comes_back_among_unchanged_ones(profile):
    layout = flat(1 << 18)
    base = tensor(np.resize(EVERY, 1 << 18), "bfloat16")
    new = base.clone()
    new[::4] = tensor(np.random.default_rng(0).permutation(EVERY), "bfloat16")
    patch = encode_patch(new, base, layout, profile=profile)
    assert same(decode_patch(patch, base, layout), new)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(["float32", "float16", "bfloat16"]), st.sampled_from(PROFILES))
def test_any_patterns_come_back(data, dtype, profile):
    n = data.draw(st.integers(0, 60))
    width = np.uint32 if dtype == "float32" else np.uint16
    patterns = st.lists(st.integers(0, np.iinfo(width).max), min_size=n, max_size=n)
    base = np.array(data.draw(patterns), dtype=width)
    new = np.array(data.draw(patterns), dtype=width)
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), dtype=bool)
    new[keep] = base[keep]
    new, base = tensor(new, dtype), tensor(base, dtype)
    patch = encode_patch(new, base, flat(n, dtype), profile=profile)
    assert same(decode_patch(patch, base, flat(n, dtype)), new)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("scale", [1e-7, 1e-6, 1e-4, 1e-2])
def test_updates_of_any_size_come_back(profile, dtype, scale):
    shapes = ((), (0,), (3, 5, 2, 7), (50_000,), (64, 1000), (1,))
    layout = Layout(tuple("abcdef"), shapes, dtype)
    base = weights(layout)
    new = update(base, scale)
    patch = encode_patch(new, base, layout, profile=profile)
    assert same(decode_patch(patch, base, layout), new)
    assert len(patch) <= largest_patch(layout)


@pytest.mark.parametrize("profile", ["small", "fast"])
def test_no_change_costs_the_header_only(profile):
    layout = Layout(tuple(map(str, range(50))), ((1000,),) * 50, "bfloat16")
    base = weights(layout)
    patch = encode_patch(base, base, layout, profile=profile)
    assert len(patch) < 600
    assert same(decode_patch(patch, base, layout), base)


@pytest.mark.parametrize("profile", ["small", "fast"])
@pytest.mark.parametrize("place", [0, 65_535, 65_536, 199_999])
def test_one_change_costs_a_few_bytes(profile, place):
    layout = flat(200_000)
    base = weights(layout)
    new = base.clone()
    new[place] = -new[place]
    patch = encode_patch(new, base, layout, profile=profile)
    assert len(patch) < 600
    assert same(decode_patch(patch, base, layout), new)


@pytest.mark.parametrize("profile", ["small", "fast"])
def test_gaps_over_65535_come_back(profile):
    layout = flat(300_000)
    base = torch.ones(300_000, dtype=torch.bfloat16)
    new = base.clone()
    new[[0, 70_000, 140_001, 299_999]] = 2.0
    assert same(decode_patch(encode_patch(new, base, layout, profile=profile), base, layout), new)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_all_changed_and_unrelated_costs_no_more_than_raw(profile, dtype):
    width = np.uint32 if dtype == "float32" else np.uint16
    random = np.random.default_rng(0)
    layout = flat(100_000, dtype)
    new, base = (tensor(random.integers(0, np.iinfo(width).max, 100_000, width), dtype) for _ in range(2))
    patch = encode_patch(new, base, layout, profile=profile)
    assert len(patch) <= 1.001 * layout.numel * layout.itemsize + 1024
    assert same(decode_patch(patch, base, layout), new)


def test_many_scalars_cost_no_more_than_raw():
    layout = Layout(tuple(map(str, range(500))), ((),) * 500, "bfloat16")
    base = weights(layout)
    new = weights(layout, 1)
    for profile in PROFILES:
        patch = encode_patch(new, base, layout, profile=profile)
        assert len(patch) <= 1.001 * 1000 + 1024
        assert same(decode_patch(patch, base, layout), new)


def test_a_tensor_of_several_blocks_comes_back(monkeypatch):
    monkeypatch.setattr("hanse.federation.wire.blocks.BLOCK", 7_000)
    layout = Layout(("a", "b"), ((50, 1000), (6_999,)), "bfloat16")
    base = weights(layout)
    new = update(base, 1e-5)
    for profile in PROFILES:
        patch = encode_patch(new, base, layout, profile=profile)
        assert same(decode_patch(patch, base, layout), new)


def test_small_beats_the_others_and_is_near_its_entropy():
    layout = flat(400_000)
    base = weights(layout)
    new = update(base, 2e-6)
    density = float(changed(new, base).float().mean())
    assert 0.01 < density < 0.1
    sizes = {profile: len(encode_patch(new, base, layout, profile=profile)) for profile in PROFILES}
    assert sizes["small"] < 0.75 * sizes["fast"] < 0.05 * sizes["raw"]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_patch_twice_gives_the_same_and_leaves_the_base(profile):
    layout = flat(10_000)
    base = weights(layout)
    before, new = base.clone(), update(base, 1e-4)
    patch = encode_patch(new, base, layout, profile=profile)
    assert patch == encode_patch(new, base, layout, profile=profile)
    first, second = decode_patch(patch, base, layout), decode_patch(memoryview(patch), base, layout)
    assert same(first, new) and same(second, new) and same(base, before)


@pytest.mark.parametrize("profile", PROFILES)
def test_another_base_or_layout_is_refused(profile):
    layout = flat(100)
    base = weights(layout)
    patch = encode_patch(update(base, 1e-3), base, layout, profile=profile)
    other = base.clone()
    other[3] = -other[3]
    with pytest.raises(WireError, match="another base"):
        decode_patch(patch, other, layout)
    for wrong in (Layout(("v",), ((100,),), "bfloat16"), Layout(("w",), ((10, 10),), "bfloat16")):
        with pytest.raises(WireError, match="another layout"):
            decode_patch(patch, base, wrong)
    for wrong in (flat(99), flat(100, "float16"), flat(100, "float32")):
        with pytest.raises(WireError):
            decode_patch(patch, base, wrong)


def test_known_digests_save_hashing_and_are_still_compared():
    layout = flat(1000)
    base, new = weights(layout), weights(layout, 1)
    known = digest_of_values(base, layout)
    assert known == hashlib.sha256(base.view(torch.uint8).numpy().tobytes()).hexdigest()
    patch = encode_patch(new, base, layout, base_digest=known, new_digest=digest_of_values(new, layout))
    assert patch == encode_patch(new, base, layout)
    assert same(decode_patch(patch, base, layout, base_digest=known), new)
    with pytest.raises(WireError, match="another base"):
        decode_patch(patch, base, layout, base_digest="0" * 64)


def test_values_that_do_not_fit_are_refused():
    base = torch.zeros(3, dtype=torch.bfloat16)
    for wrong in (torch.zeros(4, dtype=torch.bfloat16), torch.zeros(3), torch.zeros(1, 3).bfloat16()):
        with pytest.raises(ValueError):
            encode_patch(wrong, base, flat(3))
        with pytest.raises(ValueError):
            changed(wrong, base)
    with pytest.raises(ValueError, match="profile"):
        encode_patch(base, base, flat(3), profile="tiny")


def test_changed_compares_bits():
    a = torch.tensor([0.0, -0.0, float("nan"), 1.0])
    assert changed(a, torch.tensor([-0.0, -0.0, float("nan"), 2.0])).tolist() == [True, False, False, True]


def test_a_patch_is_a_frame():
    base = torch.zeros(3, dtype=torch.bfloat16)
    patch = encode_patch(base + 1, base, flat(3))
    frame = decode_frame(patch, kind="patch", max_bytes=len(patch))
    assert frame.fields["layout"] == flat(3).digest()
    assert frame.fields["base"] == hashlib.sha256(bytes(6)).hexdigest()
    assert frame.fields["new"] == hashlib.sha256(struct.pack("<3H", *[0x3F80] * 3)).hexdigest()
