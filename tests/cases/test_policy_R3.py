"""R3: merging and unmerging drifts the base, and the saved adapter is not the trained model.

Here nothing is ever merged in place: the base keeps its hash through training, sampling, reference passes,
exports and merges, and the saved adapter gives the trained policy's logits.
"""

from __future__ import annotations

import pytest
import torch
from peft import AutoPeftModelForCausalLM

from hanse.policy.build import build_policy
from hanse.policy.export import merge_policy, save_policy
from hanse.policy.lora import base_sha256
from hanse.recipe.model import HfPolicy
from policy.random_models import logits, train_steps, write_model


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_base_stays_bit_for_bit_what_it_was(dtype, tmp_path):
    path = write_model(tmp_path / "m", "llama", getattr(torch, dtype))
    policy = build_policy(HfPolicy(type="hf", path=str(path), train="lora", dtype=dtype), seed=0)
    before, files = base_sha256(policy.model), (path / "model.safetensors").read_bytes()
    for _ in range(3):
        train_steps(policy, 2, beta=0.05)
        save_policy(policy, tmp_path / "out")
        merge_policy(policy, tmp_path / "merged")
        with policy.reference():
            base_logits = logits(policy.model, policy.tokenizer)
    assert base_sha256(policy.model) == before
    assert (path / "model.safetensors").read_bytes() == files
    trained = logits(policy.model, policy.tokenizer)
    assert (trained - base_logits).abs().max() > 0.1
    saved = AutoPeftModelForCausalLM.from_pretrained(tmp_path / "out")
    assert torch.equal(logits(saved, policy.tokenizer), trained)
