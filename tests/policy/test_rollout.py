from __future__ import annotations

import torch

from hanse.policy.rollout import Group, length_mask
from hanse.tasks.problem import Problem


def make_group(**changes) -> Group:
    given = {
        "problem": Problem("p", "1+1="),
        "prompt_ids": (3, 12, 3, 13),
        "tokens_GT": torch.tensor([[4, 1, 0], [5, 6, 7]]),
        "lengths_G": torch.tensor([2, 3]),
        "terminated_G": torch.tensor([True, False]),
        "logp_GT": torch.tensor([[-0.1, -0.2, 0.0], [-0.3, -0.4, -0.5]]),
    }
    return Group(**(given | changes))


def test_masks_and_token_lists_follow_lengths():
    g = make_group()
    assert g.size == 2
    assert g.mask_GT.tolist() == [[True, True, False], [True, True, True]]
    assert g.token_ids_G() == [[4, 1], [5, 6, 7]]
    assert length_mask(torch.tensor([0, 2]), 2).tolist() == [[False, False], [True, True]]


def test_rollouts_are_read_one_by_one():
    first, second = make_group(rewards_G=torch.tensor([float("nan"), 0.5]))
    assert first.token_ids == (4, 1)
    assert (first.finish, second.finish) == ("stop", "length")
    assert (first.reward, second.reward) == (None, 0.5)
    assert torch.equal(first.logp_T, torch.tensor([-0.1, -0.2]))
    assert [r.reward for r in make_group()] == [None, None]
