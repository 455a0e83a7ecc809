"""G13: the denominator ignores the mask of the numerator. Here: inactive rollouts change nothing at all."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo.toys import gradient_of, make_groups, make_policy, spec_of
from grpo.written import inputs
from hanse.grpo.batch import pack, totals
from hanse.grpo.objectives import OBJECTIVES

CONSTANT = {"dr_grpo"}  # its denominator is meant to count every slot


@cache
def group():
    policy = make_policy()
    return replace(
        make_groups(policy, spec_of(group_size=6), ("13+25=",))[0], advantages_G=torch.linspace(-1, 1, 6)
    )


@pytest.mark.parametrize("name", sorted(set(OBJECTIVES) - CONSTANT))
@given(ended=st.lists(st.booleans(), min_size=6, max_size=6).filter(any))
def test_masked_rollouts_are_as_if_they_were_not_there(name: str, ended: list[bool]):
    """Losses over all rollouts with truncated ones masked = losses over the others alone."""
    g = replace(group(), terminated_G=torch.tensor(ended))
    batch = pack([g], mask_truncated=True)
    denominators = totals(batch, batch, 1, 5)
    rows = torch.tensor(ended).nonzero().squeeze(1).tolist()
    assert denominators.sequences == len(rows)
    assert denominators.tokens == denominators.batch_tokens == float(g.lengths_G[rows].sum())

    def loss(members: list[int]) -> float:
        logp = batch.sampler_logp_PGT[0, members]
        x = inputs(
            logp,
            old_logp_NT=logp + 0.1,
            advantages_N=batch.advantages_PG[0, members],
            mask_NT=batch.mask_PGT[0, members],
            totals=denominators,
        )
        return float(OBJECTIVES[name](x).value)

    assert loss(list(range(6))) == pytest.approx(loss(rows), abs=1e-6)


@pytest.mark.parametrize("objective", ["grpo", "dapo", "bnpo"])
def test_masking_the_truncated_does_not_shrink_the_rest(objective: str):
    policy = make_policy()
    spec = spec_of(objective=objective, mask_truncated=True)
    (g,) = make_groups(policy, spec, ("13+25=",))
    g = replace(
        g,
        terminated_G=torch.tensor([True, True, False, False]),
        advantages_G=torch.tensor([1.0, -1.0, 3.0, -3.0]),
    )
    _, masked = gradient_of(policy, spec, [g])
    half = replace(
        g,
        tokens_GT=g.tokens_GT[:2],
        lengths_G=g.lengths_G[:2],
        terminated_G=g.terminated_G[:2],
        logp_GT=g.logp_GT[:2],
        rewards_G=g.rewards_G[:2],
        advantages_G=g.advantages_G[:2],
    )
    _, alone = gradient_of(policy, spec.model_copy(update={"group_size": 2}), [half])
    torch.testing.assert_close(masked, alone, rtol=1e-4, atol=1e-6)
