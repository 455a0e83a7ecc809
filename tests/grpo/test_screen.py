"""Screen, then deepen: the rollouts of a step are fixed, and go where the first look disagrees."""

from __future__ import annotations

import pytest
import torch

from hanse.grpo.screen import fresh_groups, joined_groups, screen_then_deepen
from hanse.policy.rollout import Group
from hanse.recipe.model import GrpoSpec
from hanse.tasks.problem import Problem

SPEC = GrpoSpec(group_size=8, prompts_per_step=8, screening="joined", screen_size=4, deepen=12)


class World:
    """Prompts of which every `every`-th disagrees in its first look; counts what is sampled."""

    def __init__(self, every: int) -> None:
        self.every, self.drawn, self.spent, self.seeds = every, 0, 0, list[int]()

    def draw(self, count: int):
        numbers = range(self.drawn, self.drawn + count)
        self.drawn += count
        return [Problem(str(i), f"{i}=", "") for i in numbers], list(numbers)

    def rollouts(self, problems, size, seeds):
        self.spent += size * len(problems)
        self.seeds += seeds
        return [self.group(problem, size) for problem in problems]

    def group(self, problem: Problem, size: int) -> Group:
        rewards = torch.zeros(size, dtype=torch.float64)
        rewards[0] = float(int(problem.id) % self.every == 0)
        shape = (size, 2 if size == 4 else 3)
        lengths = torch.full((size,), shape[1])
        ended = torch.ones(size, dtype=torch.bool)
        return Group(
            problem, (1,), torch.ones(shape).long(), lengths, ended, torch.zeros(shape), None, rewards
        )


@pytest.mark.parametrize("every", [1, 2, 3, 1000])
def test_no_more_rollouts_than_without_screening_and_nearly_as_many(every):
    world = World(every)
    result = screen_then_deepen(world.draw, world.rollouts, SPEC)
    assert world.spent <= 64
    assert world.spent > 64 - 16 or every == 1000
    assert len(result.screened) == world.drawn
    assert [int(look.problem.id) % every for look, _ in result.deepened] == [0] * len(result.deepened)
    assert len(result.deepened) == len(range(0, world.drawn, every))
    assert len(set(world.seeds)) == len(world.seeds)


def test_joined_groups_hold_both_looks():
    world = World(1)
    (group, *_) = joined_groups(screen_then_deepen(world.draw, world.rollouts, SPEC))
    assert group.tokens_GT.shape == (16, 3)
    assert group.lengths_G.tolist() == [2] * 4 + [3] * 12
    assert group.rewards_G.tolist() == [1, 0, 0, 0] + [1] + [0] * 11
    assert group.advantages_G is None


def test_fresh_advantages_rest_on_the_first_look_alone():
    world = World(1)
    spec = SPEC.model_copy(update={"scale": "none"})
    (group, *_) = fresh_groups(screen_then_deepen(world.draw, world.rollouts, spec), spec)
    assert group.advantages_G.tolist() == [0.75] + [-0.25] * 11
    spec = SPEC.model_copy(update={"scale": "group_population"})
    (group, *_) = fresh_groups(screen_then_deepen(world.draw, world.rollouts, spec), spec)
    deviation = (3 / 16) ** 0.5
    assert group.advantages_G[0].item() == pytest.approx(0.75 / (deviation + 1e-4))
