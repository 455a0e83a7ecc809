"""R12: adapter keys do not match, loading "succeeds", and the base answers under the adapter's label.

peft only warns about such files. Here loading is strict.
"""

from __future__ import annotations

import warnings

import pytest
import torch
from peft import AutoPeftModelForCausalLM
from safetensors.torch import load_file, save_file

from hanse.errors import RunError
from hanse.policy.build import build_policy
from hanse.policy.export import load_trained, save_policy
from hanse.recipe.model import HfPolicy
from policy.random_models import logits, train_steps, write_model


def test_keys_under_another_prefix_are_an_error_not_the_base_model(tmp_path):
    path = write_model(tmp_path / "m", "llama")
    policy = build_policy(HfPolicy(type="hf", path=str(path), train="lora"), seed=0)
    with policy.reference():
        base_logits = logits(policy.model, policy.tokenizer)
    train_steps(policy)
    save_policy(policy, tmp_path / "out")
    file = tmp_path / "out" / "adapter_model.safetensors"
    save_file({f"module.{name}": tensor for name, tensor in load_file(file).items()}, file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        silent = AutoPeftModelForCausalLM.from_pretrained(tmp_path / "out")
    assert torch.equal(logits(silent, policy.tokenizer), base_logits)
    with pytest.raises(RunError, match=r"28 adapter tensors are missing and 28 unexpected"):
        load_trained(tmp_path / "out")
