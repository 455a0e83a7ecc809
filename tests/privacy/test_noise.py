from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.privacy.noise import KEY, Stream, key_from_seed, new_key
from hanse.privacy.sampling import poisson_sample

STREAM = Stream(bytes(range(KEY)))


def test_bytes_are_those_of_aes_in_counter_mode():
    """FIPS-197, appendix C.3: the key 00 01 … 1f. Here for the counter block of zeros, by another library."""
    aes = pytest.importorskip("Crypto.Cipher.AES")
    zeros = aes.new(STREAM.key, aes.MODE_ECB).encrypt(bytes(16))
    bits = np.frombuffer(zeros, "<u8")
    assert STREAM.uniform(2).tolist() == [((int(b) >> 11) + 0.5) / 2**53 for b in bits]


def test_a_stream_repeats_itself_and_others_are_unrelated():
    assert torch.equal(STREAM.normal(7), STREAM.normal(7))
    names = [("a",), ("b",), ("a", 1), ("a", "1"), ("a1",), (b"a",), ("a", "b"), ("ab",)]
    heads = {tuple(STREAM.sub(*name).normal(3).tolist()) for name in names}
    assert len(heads) == len(names)
    assert not torch.equal(Stream(bytes(KEY)).sub("a").normal(3), STREAM.sub("a").normal(3))


@given(st.integers(0, 40))
@settings(max_examples=20, deadline=None)
def test_shorter_draws_of_uniforms_begin_longer_ones(count):
    assert STREAM.uniform(count).tolist() == STREAM.uniform(40)[:count].tolist()
    assert STREAM.normal(count).shape == (count,)


def test_normal_numbers_have_the_moments_of_the_normal_distribution():
    z = STREAM.sub("moments").normal(400_001)  # more than a block, and odd
    n = len(z)
    assert abs(float(z.mean())) < 5 / n**0.5
    assert abs(float(z.square().mean()) - 1) < 5 * (2 / n) ** 0.5
    assert abs(float(z.pow(3).mean())) < 5 * (15 / n) ** 0.5
    assert abs(float(z.pow(4).mean()) - 3) < 5 * (96 / n) ** 0.5
    beyond = float((z.abs() > 1.959964).double().mean())
    assert abs(beyond - 0.05) < 5 * (0.05 * 0.95 / n) ** 0.5
    assert len(z.unique()) == n


def test_keys_of_the_system_differ_and_those_of_a_seed_do_not():
    assert new_key() != new_key() and len(new_key()) == KEY
    assert key_from_seed(0, 1) == key_from_seed(0, 1)
    assert len({key_from_seed(seed, client) for seed in range(3) for client in range(3)}) == 9


def test_a_poisson_sample_takes_each_problem_at_its_rate_independently():
    taken = np.zeros((2000, 50))
    for step in range(2000):
        taken[step, poisson_sample(STREAM.sub("step", step), 50, 0.3)] = 1
    error = (0.3 * 0.7 / 2000) ** 0.5
    assert np.abs(taken.mean(0) - 0.3).max() < 5 * error
    sizes = taken.sum(1)
    assert abs(sizes.var() - 50 * 0.3 * 0.7) < 5 * 50 * 0.3 * 0.7 * (2 / 2000) ** 0.5
    correlations = np.corrcoef(taken.T) - np.eye(50)
    assert np.abs(correlations).max() < 5.5 / 2000**0.5


def test_a_poisson_sample_may_be_empty_or_everything():
    assert poisson_sample(STREAM, 5, 1e-12) == []
    assert poisson_sample(STREAM, 5, 1.0) == [0, 1, 2, 3, 4]
