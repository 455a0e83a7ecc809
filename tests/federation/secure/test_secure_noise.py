"""What the server sees of one client: noise, new in every round. Keys are seeded, so results are certain."""

from __future__ import annotations

import numpy as np
import pytest

from hanse.federation.secure.messages import Masked
from hanse.privacy.secure.fixed_point import Grid, quantise
from tests.federation.secure.crowd import ENTRIES, REACH, STAGES, Crowd

SIGNIFICANCE_0_01 = 310.5
"""The 99 % point of chi-square with 255 degrees of freedom."""


def chi_square(data: bytes) -> float:
    """Of the frequencies of byte values against equal ones."""
    counts = np.bincount(np.frombuffer(data, np.uint8), minlength=256)
    expected = len(data) / 256
    return float(((counts - expected) ** 2 / expected).sum())


def masked(crowd: Crowd, client: int) -> bytes:
    return bytes(Masked.from_bytes(crowd.heard[STAGES[2]][client], size=4 * ENTRIES).words)


def bare(crowd: Crowd, client: int, weight: float) -> bytes:
    return quantise(crowd.updates[client], weight, Grid(REACH, 24))[0].tobytes()


def several_rounds(crowd: Crowd, client: int, rounds: int = 12) -> list[bytes]:
    vectors = []
    for _ in range(rounds):
        crowd.round()
        vectors.append(masked(crowd, client))
    return vectors


@pytest.mark.parametrize("client", [0, 3])
def test_a_masked_update_looks_like_noise_and_a_bare_one_does_not(client):
    crowd = Crowd()
    assert chi_square(b"".join(several_rounds(crowd, client))) < SIGNIFICANCE_0_01
    assert chi_square(bare(crowd, client, 0.2) * 12) > SIGNIFICANCE_0_01


def test_bits_of_a_masked_update_do_not_go_with_those_of_the_bare_one():
    crowd = Crowd()
    own = np.frombuffer(bare(crowd, 1, 11 / 60) * 12, "<u4").astype(np.int64)
    seen = np.frombuffer(b"".join(several_rounds(crowd, 1)), "<u4").astype(np.int64)
    agree = [np.mean((own >> bit & 1) == (seen >> bit & 1)) for bit in range(32)]
    assert np.abs(np.array(agree) - 0.5).max() < 3.3 * 0.5 / np.sqrt(12 * ENTRIES)


def test_masks_are_fresh_in_every_round():
    """The same update twice: with a mask used twice the two messages would be the same."""
    crowd = Crowd()
    first, second = several_rounds(crowd, 2, rounds=2)
    words = [np.frombuffer(one, "<u4") for one in (first, second)]
    assert not (words[0] == words[1]).any()
    difference = (words[0] - words[1]).tobytes()
    assert chi_square(b"".join([difference, *several_rounds(crowd, 2, 11)])) < SIGNIFICANCE_0_01


def test_keys_are_fresh_in_every_round_even_with_the_same_base():
    crowd = Crowd()
    crowd.updates = {k: update * 0 for k, update in crowd.updates.items()}
    adverts = []
    for _ in range(2):
        crowd.round()
        adverts.append(crowd.heard[STAGES[0]])
    assert all(adverts[0][k][-64:] != adverts[1][k][-64:] for k in crowd.updates)


def test_nothing_that_a_client_sends_holds_its_update():
    crowd = Crowd()
    crowd.round()
    sent = b"".join(crowd.heard[stage][2] for stage in STAGES)
    plain = crowd.updates[2].numpy()
    forms = [plain, plain * np.float32(12 / 60), np.frombuffer(bare(crowd, 2, 12 / 60), "<u4")]
    assert not any(form[i : i + 1].tobytes() in sent for form in forms for i in range(0, ENTRIES, 7))
    assert all(form[:1].tobytes() in form.tobytes() for form in forms)
