from __future__ import annotations

import pytest
import torch

from hanse.federation.reward_only.experts import UNKNOWN, chosen, competence, embedded, nearest
from hanse.grpo.advantages import group_advantages

NAN = float("nan")


def test_texts_are_near_by_what_they_share():
    vectors = embedded(
        ["012+034=", "012+035=", "998*997=", [{"role": "user", "content": "012+034="}]], 3, 4096
    )
    assert vectors.norm(dim=1) == pytest.approx([1.0] * 4)
    cosines = vectors @ vectors.T
    assert cosines[0, 1] > cosines[0, 2] and cosines[0, 3] == pytest.approx(1)


def test_nearest_by_hand_and_ties_in_order():
    auxiliary = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    questions = torch.tensor([[0.0, 1.0], [1.0, 0.1]], dtype=torch.float64)
    assert nearest(questions, auxiliary, 2).tolist() == [[1, 0], [0, 2]]


def test_competence_by_hand():
    right = torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [NAN, NAN, NAN]])
    near = torch.tensor([[0, 1], [2, 0]])
    wanted = [[1.0, 0.5, UNKNOWN], [0.5, 0.5, UNKNOWN]]
    assert competence(right, near).tolist() == wanted


def test_the_best_are_asked_and_equal_ones_are_drawn_by_the_question():
    prompts = [f"{i}+1=" for i in range(200)]
    better = torch.tensor([[0.2, 0.9, 0.5, -1.0]]).expand(50, 4)
    assert chosen(better, 2, 0, prompts[:50]).tolist() == [[1, 2]] * 50
    equal = chosen(torch.zeros(200, 4), 1, 0, prompts).flatten()
    assert (torch.bincount(equal, minlength=4) > 25).all()
    later = chosen(torch.zeros(200, 4), 1, 0, prompts[::-1]).flatten()
    assert torch.equal(later, equal.flip(0))  # whatever was asked before
    assert not torch.equal(equal, chosen(torch.zeros(200, 4), 1, 1, prompts).flatten())


def test_the_trap_a_group_of_experts_has_no_gradient():
    """Normalised over the experts of one candidate, advantages sum to zero, and so does its gradient."""
    scores_EG = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    literal = group_advantages(scores_EG.T, scale="group_population")
    assert literal.sum(1) == pytest.approx([0.0] * 3, abs=1e-12)
    ours = group_advantages(scores_EG.mean(0, keepdim=True))
    assert (ours.abs() > 0.5).sum() == 2
