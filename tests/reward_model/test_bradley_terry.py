"""The Bradley–Terry loss, margins and accuracy, against values worked out by hand."""

import math

import pytest
import torch

from hanse.reward_model.bradley_terry import accuracy, boundary_distance, loss, margins


def test_loss_by_hand():
    margins_N = margins(torch.tensor([2.0, 0.0]), torch.tensor([2.0 - math.log(3), 0.0]))
    # sigmoid(log 3) = 3/4 and sigmoid(0) = 1/2
    assert float(loss(margins_N)) == pytest.approx((math.log(4 / 3) + math.log(2)) / 2)


def test_gradient_by_hand():
    preferred = torch.tensor([math.log(3)], requires_grad=True)
    other = torch.zeros(1, requires_grad=True)
    loss(margins(preferred, other)).backward()
    assert float(preferred.grad) == pytest.approx(-0.25)
    assert float(other.grad) == pytest.approx(0.25)


def test_loss_of_a_pair_that_is_far_off_stays_finite():
    assert float(loss(torch.tensor([-1e4]))) == pytest.approx(1e4)


def test_accuracy_counts_a_tie_half():
    assert accuracy(torch.tensor([1.0, -1.0, 0.0, 3.0])) == pytest.approx(2.5 / 4)


def test_accuracy_of_nothing():
    with pytest.raises(ValueError, match="no pairs"):
        accuracy(torch.zeros(0))


def test_distance_of_balanced_margins_is_zero():
    assert boundary_distance(torch.tensor([2.0, -2.0])) == 0
    assert boundary_distance(torch.tensor([-3.0, 1.0])) == pytest.approx(1.0)
