import math

import pytest
import torch

from hanse.errors import RecipeError, RunError
from hanse.policy.build import build_policy
from hanse.policy.export import save_policy
from hanse.policy.lora import base_sha256, load_adapter, lora_layers
from hanse.recipe.model import HfPolicy, LoraSpec
from policy.random_models import train_steps, write_model


def lora_policy(path, seed=0, dtype="float32", **fields):
    spec = HfPolicy(type="hf", path=str(path), train="lora", dtype=dtype, lora=LoraSpec(**fields))
    return build_policy(spec, seed)


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("llama"), "llama")


def test_initial_values_depend_on_the_seed_and_the_name_alone(llama):
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = lora_policy(llama, seed=5)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    part = lora_policy(llama, seed=5, targets=["v_proj"])
    whole = first.parameters.views(first.parameters.master)
    for name, tensor in part.parameters.views(part.parameters.master).items():
        assert torch.equal(tensor, whole[name])
    assert lora_policy(llama, seed=6).parameters.sha256() != first.parameters.sha256()


def test_a_is_spread_as_peft_spreads_it_and_b_is_zero(llama):
    policy = lora_policy(llama, rank=16)
    for _, layer in lora_layers(policy.model):
        a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
        bound = 1 / math.sqrt(a.shape[1])
        assert bound * 0.9 < a.abs().max() <= bound and abs(a.std() * math.sqrt(3) / bound - 1) < 0.15
        assert not b.any()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_only_float32_adapters_train_on_a_frozen_base(llama, dtype):
    policy = lora_policy(llama, dtype=dtype, targets=["q_proj", "down_proj"], rank=4, alpha=8)
    assert len(policy.parameters.names) == 2 * 2 * 2
    assert all("lora_" in name for name in policy.parameters.names)
    assert policy.parameters.dtype == torch.float32
    frozen = {p.dtype for p in policy.model.parameters() if not p.requires_grad}
    assert frozen == {getattr(torch, dtype)}


def test_rslora_scales_by_the_root_of_the_rank(llama):
    for rslora, scaling in ((False, 16 / 8), (True, 16 / math.sqrt(8))):
        policy = lora_policy(llama, rank=8, alpha=16, rslora=rslora)
        assert {layer.scaling["default"] for _, layer in lora_layers(policy.model)} == {scaling}


def test_all_linear_leaves_the_output_layer_out(llama):
    names = [name for name, _ in lora_layers(lora_policy(llama).model)]
    assert len(names) == 2 * 7 and not any("lm_head" in name for name in names)
    assert any("lm_head" in n for n, _ in lora_layers(lora_policy(llama, targets=["lm_head"]).model))


def test_unknown_targets_are_refused_with_those_there_are(llama, tmp_path):
    with pytest.raises(RecipeError, match=r"policy\.lora\.targets: .*'query'.*q_proj, k_proj"):
        lora_policy(llama, targets=["q_proj", "query"])
    tied = write_model(tmp_path / "tied", "qwen2")
    with pytest.raises(RecipeError, match=r"policy\.lora\.targets: .*'lm_head'"):
        lora_policy(tied, targets=["lm_head"])
    with pytest.raises(RecipeError, match=r"policy\.lora\.targets: .*empty"):
        lora_policy(tied, targets=[])


def test_the_base_hash_is_that_of_the_model_without_adapters(llama):
    full = build_policy(HfPolicy(type="hf", path=str(llama), train="full"), 0)
    adapted = lora_policy(llama)
    assert base_sha256(adapted.model) == base_sha256(full.model)
    with torch.no_grad():
        next(p for p in adapted.model.parameters() if not p.requires_grad).view(-1)[0] += 1e-6
    assert base_sha256(adapted.model) != base_sha256(full.model)


def test_the_reference_is_the_base_and_kl_keeps_the_gradient(llama):
    policy = lora_policy(llama)
    learner = train_steps(policy, 2, beta=0.1)
    assert learner.state.moments.first.abs().sum() > 0
    views = policy.parameters.views(policy.parameters.master)
    assert all(bool(tensor.any()) for name, tensor in views.items() if "lora_B" in name)


def test_an_adapter_of_other_settings_is_refused(llama, tmp_path):
    policy = lora_policy(llama, rank=4, targets=["q_proj", "v_proj"])
    train_steps(policy)
    save_policy(policy, tmp_path / "adapter")

    def load(**fields):
        expected = LoraSpec(**{"rank": 4, "alpha": 16, "targets": ["v_proj", "q_proj"], **fields})
        base = build_policy(HfPolicy(type="hf", path=str(llama), train="full"), 0).model
        return load_adapter(base, tmp_path / "adapter", expected)

    load()
    for name, value in {"rank": 8, "alpha": 8, "rslora": True, "targets": "all-linear"}.items():
        with pytest.raises(RunError, match=f"the adapter's {name} is not"):
            load(**{name: value})
