import numpy as np
import pytest

from hanse.privacy.secure.masks import add_mask
from hanse.privacy.secure.primitives import (
    agreed_key,
    is_key,
    join_secret,
    keystream,
    public_key,
    seal,
    split_secret,
    unseal,
)

ONE, OTHER = bytes([1] * 32), bytes([2] * 32)


def test_two_parties_agree_on_a_key_for_each_purpose():
    key = agreed_key(ONE, public_key(OTHER), b"a")
    assert key == agreed_key(OTHER, public_key(ONE), b"a")
    assert key != agreed_key(OTHER, public_key(ONE), b"b")


def test_a_key_of_small_order_is_none():
    assert is_key(public_key(ONE))
    assert not is_key(bytes(32))
    assert not is_key(b"short")


def test_a_key_has_one_form_so_nobody_passes_anothers_for_its_own():
    """X25519 takes no notice of the highest bit, nor of adding the field's size."""
    flipped = bytearray(public_key(ONE))
    flipped[31] |= 0x80
    base = (9 + 2**255 - 19).to_bytes(32, "little")
    assert is_key((9).to_bytes(32, "little"))
    assert not is_key(bytes(flipped))
    assert not is_key(base)


def test_what_was_sealed_opens_with_its_key_and_place_alone():
    sealed = seal(ONE, b"text", b"here")
    assert unseal(ONE, sealed, b"here") == b"text"
    for key, data, place in ((OTHER, sealed, b"here"), (ONE, sealed, b"there"), (ONE, sealed[:-1], b"here")):
        with pytest.raises(ValueError, match="another key, or damaged"):
            unseal(key, data, place)


def test_any_shares_give_the_secret_and_one_fewer_do_not():
    secret = bytes(range(32))
    shares = split_secret(secret, 3, 5)
    for held in ((0, 1, 2), (4, 2, 0), (1, 3, 4)):
        assert join_secret({h: shares[h] for h in held}) == secret
    assert join_secret({h: shares[h] for h in (0, 1)}) != secret


def test_a_keystream_in_blocks_is_the_known_one():
    """AES-256 of a block of zeros under a key of zeros is a published value."""
    start = b"".join(block.tobytes() for block in keystream(bytes(32), 16))
    assert start.hex() == "dc95c078a2408989ad48a21492842087"
    length = (1 << 20) + 40
    assert b"".join(b.tobytes() for b in keystream(ONE, length))[:64] == next(keystream(ONE, 64)).tobytes()
    assert sum(len(block) for block in keystream(ONE, length)) == length


@pytest.mark.parametrize("dtype", ["<u4", "<u8"])
def test_a_mask_comes_off_again(dtype):
    words = np.arange(300_001, dtype=dtype)
    add_mask(words, ONE)
    assert (words != np.arange(300_001)).mean() > 0.999
    add_mask(words, ONE, -1)
    assert np.array_equal(words, np.arange(300_001))
