from __future__ import annotations

import math

import pytest
import torch

from hanse.grpo.foreign import below_floor, damped, typical_weight
from hanse.policy.sampler import Sampling
from hanse.recipe.swarm import SwarmSpec
from hanse.swarm.collect import Written, make_grid
from hanse.swarm.foreign import foreign_weights
from swarm.made import readings

MASK = torch.tensor([[True, True, False], [True, True, True]])


def test_the_weight_by_hand():
    """Two tokens, H = 0.5 and Var = 0.25 each: 1 down to log p = -1 - z * sqrt(0.5)."""
    for z in (0.0, 1.0, 3.0):
        edge = 1 + z * math.sqrt(0.5)
        for beyond in (-0.5, 0.0, 0.7, 9.0):
            seen = readings(2, 3, logp=torch.tensor([[-(edge + beyond) / 2], [-0.5]]))
            found = typical_weight(seen, MASK, z)
            assert float(found[0]) == pytest.approx(math.exp(-max(0.0, beyond)), rel=1e-5)
            assert float(found[1]) == pytest.approx(1.0)


def test_what_is_behind_the_end_weighs_nothing():
    seen = readings(2, 3, logp=torch.tensor([[-0.5, -0.5, -99.0], [-0.5, -0.5, -0.5]]))
    assert typical_weight(seen, MASK, 0.0).tolist() == pytest.approx([1.0, 1.0])
    assert below_floor(seen, MASK, -4.0).tolist() == [False, False]


def test_text_that_the_policy_would_never_write():
    seen = readings(2, 3, logp=torch.tensor([[-3000.0], [-0.5]]))
    assert typical_weight(seen, MASK, 3.0).tolist() == [0.0, 1.0]


def test_negative_advantages_below_the_floor_vanish():
    """Mean log-probs -4.01 and -3.99 a token; the weight is 1 for any z that is large."""
    seen = readings(2, 3, logp=torch.tensor([[-4.01], [-3.99]]))
    assert below_floor(seen, MASK, -4.0).tolist() == [True, False]
    down = torch.tensor([-1.0, -1.0], dtype=torch.float64)
    assert damped(down, seen, MASK, 99.0, -4.0).tolist() == [0.0, -1.0]
    assert damped(-down, seen, MASK, 99.0, -4.0).tolist() == [1.0, 1.0]
    assert damped(down, seen, MASK, 99.0, -5.0).tolist() == [-1.0, -1.0]


def test_a_grid_is_its_rows():
    written = [Written("p", 0, (5, 1), True), Written("p", 1, (5, 6, 1), True), Written("q", 1, (7,), False)]
    grid = make_grid(written, ["p", "q"], 2, 0)
    seen = readings(4, 3, logp=torch.tensor([[-1.5], [-0.5], [-0.5], [-9.0]]))
    spec = SwarmSpec(typical_z=0.0, floor=-4.0)
    found = foreign_weights(seen, grid, torch.tensor([[1.0, 2.0], [-1.0, -1.0]]), spec)
    assert found.tolist()[0] == pytest.approx([math.exp(-2.0), 2.0])
    assert found.tolist()[1] == pytest.approx([-1.0, 0.0])


def test_honest_samples_keep_most_of_their_weight(policy):
    """At z = 3 next to no sample of the policy's own is damped."""
    from grpo.toys import problems_of
    from hanse.policy.readings import read_completions
    from hanse.policy.sampler import Sampler

    groups = Sampler(policy, Sampling(12)).sample(problems_of(), 64, [1, 2, 3, 4])
    weights = []
    for g in groups:
        seen = read_completions(
            policy, [g.prompt_ids], g.tokens_GT.unsqueeze(0), [0], torch.arange(64).unsqueeze(0), Sampling(12)
        )
        weights.append(typical_weight(seen, g.mask_GT, 3.0))
    found = torch.cat(weights)
    assert (found < 1).float().mean() < 0.02 and found.mean() > 0.99
