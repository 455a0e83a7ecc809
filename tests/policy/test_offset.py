"""An offset of the base: added once, from the originals, and taken away without a trace."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from hanse.policy.build import build_policy
from hanse.policy.export import load_trained, save_policy
from hanse.policy.lora import add_lora, base_sha256, lora_layers
from hanse.policy.offset import BaseOffset
from hanse.policy.parameters import Parameters
from hanse.recipe.model import LoraSpec, TinyPolicy


def tiny(dtype: str):
    spec = TinyPolicy(hidden=16, layers=1, heads=2, intermediate=32, train="lora", dtype=dtype)
    return build_policy(spec, seed=0)


def offset_of(policy, scale: float) -> torch.Tensor:
    count = sum(layer.get_base_layer().weight.numel() for _, layer in lora_layers(policy.model))
    return scale * torch.randn(count, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_nothing_drifts_however_often_it_is_added(dtype):
    policy = tiny(dtype)
    before, values = base_sha256(policy.model), policy.parameters.master.clone()
    lifted = torch.cat([values, offset_of(policy, 1e-2)])
    policy.load(lifted)
    once = base_sha256(policy.model)
    for _ in range(5):
        policy.load(lifted)
    assert base_sha256(policy.model) == once != before
    with policy.reference():
        assert base_sha256(policy.model) == before
    hashed = policy.sha256()
    policy.load(values)
    assert base_sha256(policy.model) == before and policy.offset is None
    assert policy.sha256() == policy.parameters.sha256() != hashed


def test_a_transposed_weight_gets_a_transposed_offset():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=2))
    wrapped = add_lora(model, LoraSpec(rank=2, targets=["c_attn"]), 0)
    names = Parameters(wrapped).names
    ((_, layer),) = lora_layers(wrapped)
    before = layer.get_base_layer().weight.detach().clone()
    matrix = torch.randn(24, 8)  # (out, in); the weight is (in, out)
    BaseOffset(wrapped, names).set(matrix.flatten())
    assert torch.equal(layer.get_base_layer().weight, before + matrix.T)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_saved_holds_offset_and_adapter(dtype, tmp_path):
    policy = tiny(dtype)
    moved = policy.parameters.master + 0.05
    policy.load(torch.cat([moved, offset_of(policy, 5e-2)]))
    save_policy(policy, tmp_path / "saved")
    ids = torch.tensor([[3, 4, 12, 5, 13]])
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "saved", dtype="auto")
    assert loaded.dtype == getattr(torch, dtype)
    with torch.no_grad():
        gap = (loaded(ids).logits.float() - policy.model(ids).logits.float()).abs().max()
    assert gap < (1e-5 if dtype == "float32" else 2e-2)
    assert not load_trained(tmp_path / "saved").lora
