"""Draws by predicted variance: pure functions of what is known and of the cursor."""

from __future__ import annotations

import itertools

import pytest
import torch

from hanse.federation.draw import Draw, VarianceDraw
from hanse.policy.rollout import Group
from hanse.tasks.problem import Problem

PROBLEMS = [Problem(f"p{i}", f"{i}=", "1") for i in range(8)]
HALF = torch.tensor([0.5] * 4 + [0.0] * 4, dtype=torch.float64)


def draw_at(cursor: int = 0, success: torch.Tensor | None = None, client: int = 0) -> VarianceDraw:
    return VarianceDraw(PROBLEMS, 0, client, cursor, success)


def scored(problem: Problem, rewards: list[float]) -> Group:
    size = len(rewards)
    tokens, ended = torch.zeros(size, 1, dtype=torch.long), torch.ones(size, dtype=torch.bool)
    values = torch.tensor(rewards, dtype=torch.float64)
    return Group(problem, (1,), tokens, ended.long(), ended, torch.zeros(size, 1), None, values)


def ids(problems: list[Problem]) -> list[str]:
    return [problem.id for problem in problems]


def test_a_draw_is_a_function_of_cursor_client_and_what_is_known():
    first = draw_at(3, HALF)
    problems, seeds = first(4)
    assert first.cursor == 7
    assert (problems, seeds) == draw_at(3, HALF)(4)
    assert len(set(ids(problems))) == 4
    assert seeds == Draw(PROBLEMS, 0, 0, 3)(4)[1]
    others = [ids(draw_at(c, HALF, client)(4)[0]) for c, client in itertools.product((4, 5, 6), (0, 1))]
    assert any(other != ids(problems) for other in others)


def test_uncertain_problems_come_five_times_as_often():
    draws = [draw_at(cursor, HALF)(1)[0][0].id for cursor in range(3000)]
    share = sum(name in {"p0", "p1", "p2", "p3"} for name in draws) / 3000
    assert share == pytest.approx(5 / 6, abs=0.03)


def test_more_than_there_are_is_every_problem_and_more():
    problems, seeds = draw_at(0, HALF)(11)
    assert set(ids(problems[:8])) == set(ids(PROBLEMS))
    assert len(problems) == len(set(seeds)) == 11


def test_what_is_learnt_stays_with_its_problem_and_leaves_the_given_state_alone():
    draw = draw_at(0, HALF)
    draw.learn([scored(PROBLEMS[2], [1.0, 1.0]), scored(PROBLEMS[7], [1.0, 0.0])])
    assert draw.success is not None
    assert draw.success.tolist() == [0.5, 0.5, 0.75, 0.5, 0.0, 0.0, 0.0, 0.25]
    assert HALF.tolist() == [0.5] * 4 + [0.0] * 4
    assert draw_at().success is not None
    assert Draw(PROBLEMS, 0, 0, 0).success is None
