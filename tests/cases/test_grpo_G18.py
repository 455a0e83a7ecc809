"""G18: with pad == eos, masks made from token values hide the end. Here masks come from lengths."""

from __future__ import annotations

import torch

from grpo.toys import gradient_of, make_groups, make_policy, relative, spec_of


def test_pad_equal_to_eos_changes_neither_rollouts_nor_masks_nor_gradient():
    usual, same = make_policy(), make_policy()
    same.pad_id = same.eos_ids[0]
    spec = spec_of()
    groups, others = make_groups(usual, spec), make_groups(same, spec)
    assert any(bool(g.terminated_G.any()) for g in groups)
    for g, other in zip(groups, others, strict=True):
        assert g.token_ids_G() == other.token_ids_G()
        assert torch.equal(g.mask_GT, other.mask_GT)
        for ids, terminated in zip(other.token_ids_G(), other.terminated_G.tolist(), strict=True):
            assert not terminated or ids[-1] == same.pad_id  # the end token itself is real and trained on
    loss, gradient = gradient_of(usual, spec, groups)
    other_loss, other_gradient = gradient_of(same, spec, others)
    assert abs(loss - other_loss) < 1e-6
    assert relative(other_gradient, gradient) < 2e-6


def test_pad_tokens_inside_a_completion_are_real():
    """A policy may well sample the pad token: it is a token like any other."""
    policy = make_policy()
    policy.pad_id = 4
    groups = make_groups(policy, spec_of(max_new_tokens=8))
    inside = [ids for g in groups for ids in g.token_ids_G() if policy.pad_id in ids[:-1]]
    assert inside
