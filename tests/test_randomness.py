import math

import torch

from hanse.policy.noise import gumbel_noise, stream_keys
from hanse.randomness import derive_seed, generator


def keys(count: int, seed: int = 7) -> torch.Tensor:
    return stream_keys(torch.full((count,), derive_seed(seed)), torch.arange(count))


def test_derived_seeds_differ_by_every_part_and_type():
    seeds = {
        derive_seed(0, "a"),
        derive_seed(0, "b"),
        derive_seed(1, "a"),
        derive_seed("0", "a"),
        derive_seed(0, "a", 0),
    }
    assert len(seeds) == 5
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert generator(3).integers(1 << 30) == generator(3).integers(1 << 30)


def test_noise_of_a_stream_does_not_depend_on_its_batch_mates():
    everybody = gumbel_noise(keys(64), 5, 33)
    alone = gumbel_noise(keys(64)[17:18], 5, 33)
    assert torch.equal(everybody[17:18], alone)


def test_noise_is_gumbel():
    noise = torch.stack([gumbel_noise(keys(256), t, 128) for t in range(20)])
    assert noise.isfinite().all()
    assert abs(noise.mean() - 0.5772) < 0.01
    assert abs(noise.var() - math.pi**2 / 6) < 0.02


def test_argmax_samples_the_distribution():
    p = torch.tensor([0.5, 0.3, 0.15, 0.05])
    picks = torch.cat([(p.log() + gumbel_noise(keys(4096, seed=s), 0, 4)).argmax(-1) for s in range(16)])
    observed = torch.bincount(picks, minlength=4) / picks.numel()
    assert (observed - p).abs().max() < 0.006


def test_neighbouring_streams_positions_and_columns_are_uncorrelated():
    noise = gumbel_noise(keys(4096), 0, 8)
    later = gumbel_noise(keys(4096), 1, 8)
    across = torch.corrcoef(torch.cat([noise, later], 1).T) - torch.eye(16)
    assert across.abs().max() < 0.07
    assert abs(torch.corrcoef(torch.stack([noise[:-1, 0], noise[1:, 0]]))[0, 1]) < 0.06


def test_all_streams_of_a_batch_are_distinct():
    seeds = torch.tensor([derive_seed(i) for i in range(500)]).repeat_interleave(16)
    assert stream_keys(seeds, torch.arange(16).repeat(500)).unique().numel() == 8000
