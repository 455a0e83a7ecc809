"""G17: secondary end ids are not recognised. Here: every id of the generation config ends a row."""

from __future__ import annotations

import torch
from transformers import GenerationConfig

from grpo.toys import make_policy, sample_groups
from hanse.policy.policy import end_token_ids


def test_all_ids_of_the_generation_config_and_the_tokenizers_own_count():
    policy = make_policy()
    policy.model.generation_config = GenerationConfig(eos_token_id=[5, 7])
    assert end_token_ids(policy.model, policy.tokenizer) == (1, 5, 7)
    policy.model.generation_config = GenerationConfig(eos_token_id=4)
    assert end_token_ids(policy.model, policy.tokenizer) == (1, 4)
    policy.model.generation_config = None
    assert end_token_ids(policy.model, policy.tokenizer) == (1,)


def test_a_rollout_stops_at_whichever_comes_first():
    policy = make_policy()
    policy.eos_ids = (1, 5, 7)
    groups = sample_groups(policy, T=12, G=8)
    last = torch.cat([g.tokens_GT.gather(1, g.lengths_G.unsqueeze(1) - 1) for g in groups]).flatten()
    ended = torch.cat([g.terminated_G for g in groups])
    assert {5, 7} <= set(last[ended].tolist()) <= {1, 5, 7}
    for g in groups:
        for ids, terminated in zip(g.token_ids_G(), g.terminated_G.tolist(), strict=True):
            assert not set(ids[:-1]) & {1, 5, 7}
            assert terminated == (ids[-1] in {1, 5, 7})
            assert terminated or len(ids) == 12
