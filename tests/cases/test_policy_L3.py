"""L3: only the last adapter was saved although the base it sits on had changed.

Here an adapter whose base has no name of its own takes that very base along, and the artefact alone gives
the evaluated logits.
"""

from __future__ import annotations

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from hanse.policy.build import build_policy
from hanse.policy.export import load_trained, save_policy
from hanse.recipe.model import HfPolicy
from policy.random_models import logits, train_steps, write_model


def test_an_adapter_trained_on_a_merged_adapter_is_whole(tmp_path):
    path = write_model(tmp_path / "m", "llama")
    first = build_policy(HfPolicy(type="hf", path=str(path), train="lora"), seed=0)
    train_steps(first)
    save_policy(first, tmp_path / "first")
    second = build_policy(HfPolicy(type="hf", path=str(tmp_path / "first"), train="lora"), seed=1)
    train_steps(second)
    save_policy(second, tmp_path / "second")
    expected = logits(second.model, second.tokenizer)
    artefact = (tmp_path / "second").rename(tmp_path / "elsewhere")
    base = AutoModelForCausalLM.from_pretrained(artefact / "base")
    loaded = PeftModel.from_pretrained(base, artefact)
    assert torch.equal(logits(loaded, AutoTokenizer.from_pretrained(artefact)), expected)
    again = load_trained(artefact)
    assert torch.equal(logits(again.model, again.tokenizer), expected)
