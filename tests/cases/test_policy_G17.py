"""G17: an end-of-turn token that tokenizer and generation config do not name lets every row run on."""

from __future__ import annotations

import torch
from transformers import AutoTokenizer

from hanse.policy.build import build_policy
from hanse.policy.sampler import Sampler, Sampling
from hanse.recipe.model import HfPolicy
from policy.random_models import PROBLEMS, write_model


def test_the_chat_template_s_end_of_turn_ends_a_row(tmp_path):
    path = write_model(tmp_path / "m", "llama")
    tokenizer = AutoTokenizer.from_pretrained(path)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<turn>"]})
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}<turn>\n{% endfor %}"
    tokenizer.save_pretrained(path)
    turn = tokenizer.convert_tokens_to_ids("<turn>")
    policy = build_policy(HfPolicy(type="hf", path=str(path), train="full"), seed=0)
    assert policy.eos_ids == (1, turn)
    groups = Sampler(policy, Sampling(max_new_tokens=40)).sample(PROBLEMS, 32, [1, 2, 3])
    last = torch.cat([g.tokens_GT.gather(1, g.lengths_G.unsqueeze(1) - 1) for g in groups]).flatten()
    ended = torch.cat([g.terminated_G for g in groups])
    assert turn in last[ended] and 1 in last[ended]
    assert torch.equal(ended, torch.isin(last, torch.tensor(policy.eos_ids)))
