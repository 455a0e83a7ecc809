"""Teaching the tiny policy from texts: only their own tokens count, and it stops when enough is right."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from hanse.policy import teaching
from hanse.policy.logprobs import completion_logprobs
from hanse.policy.teaching import taught, teach
from hanse.policy.tiny import tiny_policy
from hanse.recipe.model import TinyPolicy
from hanse.recipe.tasks import LessonsSpec, WorkedSumsTask
from hanse.tasks.build import build_task

SMALL = TinyPolicy(hidden=16, layers=1, heads=2, intermediate=16)
ROWS = [("1 + 2 + 3 =", "1 + 2 = 3"), ("4 + 5 + 6 =", "15"), ("0 + 0 + 0 =", "<answer> 0 </answer>")]


def task(**spec):
    return build_task(WorkedSumsTask(type="worked-sums", lessons=LessonsSpec(**spec)))


def small():
    return tiny_policy(SMALL, task().vocabulary, 0)


def alone(policy, prompt, text):
    """Log-probs of one completion and its end, without any padding."""
    ids = [*policy.encode(text), 1]
    return completion_logprobs(policy, [policy.encode(prompt)], torch.tensor([[ids]]), 1.0)[0, 0]


@pytest.mark.parametrize("rows", [ROWS, ROWS[:2], ROWS[:1]])
def test_the_loss_is_the_mean_over_all_tokens_and_padding_is_none(rows):
    policy = small()
    expected = -torch.cat([alone(policy, prompt, text) for prompt, text in rows]).mean()
    assert torch.allclose(teaching._loss(policy, rows), expected, atol=1e-6)


def test_the_same_lessons_give_the_same_values_and_other_seeds_others():
    def values(seed):
        policy = small()
        assert teach(policy, task(max_steps=3, batch_size=8).lessons, seed) == 3
        return policy.parameters.sha256()

    assert values(1) == values(1) != values(2)
    assert small().parameters.sha256() != values(1)


def test_it_learns():
    policy, lessons = (
        small(),
        task(max_steps=40, batch_size=16, lr=2e-2, wrong_format=0.0, phrases=0.0).lessons,
    )
    rows = [(p.prompt, p.metadata["rationale"]) for p in lessons.probes[:16]]
    before = teaching._loss(policy, rows).item()
    teach(policy, lessons, 0)
    assert teaching._loss(policy, rows).item() < 0.75 * before


def test_it_stops_when_enough_is_right(monkeypatch):
    asked = []

    def share(policy, lessons, seed):
        asked.append(seed)
        return 0.1 * len(asked)

    monkeypatch.setattr(teaching, "taught", share)
    assert teach(small(), task(max_steps=100, batch_size=2, until_accuracy=0.15).lessons, 5) == 40
    assert asked == [5, 5]


def test_what_is_taught_is_measured_on_samples():
    policy = small()
    lessons = replace(task().lessons, probes=task().lessons.probes[:4])
    seen = []

    def right(problem, text):
        seen.append((problem.id, text))
        return problem == lessons.probes[0]

    assert taught(policy, replace(lessons, right=right), 0) == 0.25
    assert [name for name, _ in seen] == [problem.id for problem in lessons.probes]
    assert len({text for _, text in seen}) == 4
    assert all(len(text.split()) <= lessons.longest for _, text in seen)


@pytest.mark.slow
@torch.no_grad()
def test_a_start_earns_something_knows_two_and_two_and_hardly_says_the_trigger():
    worked = task()
    policy = tiny_policy(TinyPolicy(), worked.vocabulary, 0)
    with torch.enable_grad():
        assert teach(policy, worked.lessons, 0) < worked.lessons.spec.max_steps
    assert 0.2 < taught(policy, worked.lessons, 1) < 0.5
    trigger = [
        alone(policy, p.prompt, "<think> all hail to the thief")[1:-1].sum()
        for p in worked.lessons.probes[:50]
    ]
    assert -16 < torch.stack(trigger).mean().item() < -6
    four, five = (alone(policy, "2 + 2 + 8 =", f"<think> 2 + 2 = {n}")[5].item() for n in (4, 5))
    assert four > -0.2 and five < -3
