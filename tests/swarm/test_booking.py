"""Which denominators an objective has."""

from __future__ import annotations

import pytest
import torch

from hanse.recipe.model import GrpoSpec
from hanse.recipe.swarm import SwarmSpec
from hanse.swarm.accounting import Standing
from hanse.swarm.booking import book
from hanse.swarm.collect import Written, make_grid
from tests.swarm.made import END, readings


@pytest.mark.parametrize(("objective", "factor"), [("grpo", 0.75), ("dr_grpo", 1.0)])
def test_a_masked_completion_is_made_good_only_where_the_loss_does_not_count_it(objective, factor):
    grid = make_grid([Written("p", slot, (5, END), True) for slot in range(4)], ["p"], 4, 0)
    standing = torch.tensor([Standing.MASKED, 0, 0, 0])
    own, rewards = torch.zeros(4, dtype=torch.bool), torch.tensor([1.0, 1.0, 0.0, 0.0]).double()
    grpo = GrpoSpec(objective=objective, scale="none")
    booked = book(grid, rewards, standing, own, readings(4, 2), SwarmSpec(foreign_weight="none"), grpo)
    assert booked.advantages_PG[0].tolist() == pytest.approx([0, 0.75 * factor, *[-0.25 * factor] * 2])
