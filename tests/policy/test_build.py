from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from hanse.errors import RecipeError
from hanse.policy import logprobs
from hanse.policy.build import build_policy
from hanse.policy.logprobs import completion_logprobs
from hanse.policy.sampler import Sampler, Sampling
from hanse.recipe.model import HfPolicy, LoraSpec, TinyPolicy
from policy.random_models import ARCHITECTURES, PROBLEMS, STATEFUL, WINDOW, train_steps, write_model


def sampled(policy, tokens=12):
    groups = Sampler(policy, Sampling(max_new_tokens=tokens)).sample(PROBLEMS, 3, [1, 2, 3])
    ids, mask = (torch.stack([getattr(g, n) for g in groups]) for n in ("tokens_GT", "mask_GT"))
    return [g.prompt_ids for g in groups], ids, mask, torch.stack([g.logp_GT for g in groups])


def losses_and_gradients(policy, prompts, tokens, mask):
    policy.parameters.start_gradients()
    logp = completion_logprobs(policy, prompts, tokens, 1.0)
    (logp * mask).sum().backward()
    return logp.detach(), policy.parameters.grad.clone()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_sampler_and_shared_prompt_agree_with_the_plain_forward_pass(architecture, tmp_path, monkeypatch):
    train = "lora" if architecture in ("qwen3", "gpt2") else "full"
    spec = HfPolicy(type="hf", path=str(write_model(tmp_path / "m", architecture)), train=train)
    policy = build_policy(spec, seed=0)
    assert policy.shared_prompt
    prompts, tokens, mask, sampler_logp = sampled(policy)
    assert int(mask.sum(-1).max()) + min(map(len, prompts)) > WINDOW
    plain, plain_grad = losses_and_gradients(replace(policy, shared_prompt=False), prompts, tokens, mask)
    monkeypatch.setattr(logprobs, "_plain_logits", None)
    shared, shared_grad = losses_and_gradients(policy, prompts, tokens, mask)
    assert plain[mask].std() > 0.3
    torch.testing.assert_close(sampler_logp[mask], plain[mask], atol=5e-6, rtol=0)
    torch.testing.assert_close(shared[mask], plain[mask], atol=5e-6, rtol=0)
    assert (shared_grad - plain_grad).norm() < 1e-5 * plain_grad.norm()


def test_the_sliding_window_really_cuts(tmp_path):
    narrow = build_policy(hf(write_model(tmp_path / "narrow", "mistral")), seed=0)
    wide = build_policy(hf(write_model(tmp_path / "wide", "mistral", sliding_window=None)), seed=0)
    prompts, tokens, mask, logp = sampled(narrow)
    without = completion_logprobs(wide, prompts, tokens, 1.0)
    assert (without - logp)[mask].abs().max() > 0.1


@pytest.mark.parametrize("architecture", STATEFUL)
def test_models_without_keys_and_values_are_refused(architecture, tmp_path):
    path = write_model(tmp_path / "m", architecture)
    for train in ("full", "lora"):
        with pytest.raises(RecipeError, match=r"policy\.path: models of type .* are not supported"):
            build_policy(HfPolicy(type="hf", path=str(path), train=train), seed=0)


def hf(path, **fields):
    return HfPolicy(type="hf", path=str(path), **{"train": "full", **fields})


@pytest.mark.parametrize("architecture", ["llama", "gemma2"])
def test_bfloat16_computes_with_casts_of_float32_masters(architecture, tmp_path):
    policy = build_policy(hf(write_model(tmp_path / "m", architecture), dtype="bfloat16"), seed=0)
    parameters = policy.parameters
    assert {p.dtype for p in policy.model.parameters()} == {torch.bfloat16}
    before = parameters.sha256()
    train_steps(policy, 1, lr=1e-3)
    assert parameters.master.dtype == torch.float32
    assert not torch.equal(parameters.master, parameters.cast.float())
    assert torch.equal(parameters.master.bfloat16(), parameters.cast)
    assert parameters.sha256() != before


def test_a_tiny_policy_depends_on_its_seed_alone():
    torch.manual_seed(1)
    first = build_policy(TinyPolicy(), seed=3)
    torch.manual_seed(2)
    second = build_policy(TinyPolicy(), seed=3)
    assert first.parameters.sha256() == second.parameters.sha256()
    assert build_policy(TinyPolicy(), seed=4).parameters.sha256() != first.parameters.sha256()
    assert not first.lora and first.encode("1+2=") and first.vocabulary == 14


@pytest.mark.parametrize("train", ["full", "lora"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_tiny_policy_starts_from_its_warmed_up_base(train, dtype, tmp_path):
    warm = build_policy(TinyPolicy(), seed=9)
    views = warm.parameters.views(warm.parameters.master)
    save_file({name: tensor.clone() for name, tensor in views.items()}, tmp_path / "start.safetensors")
    spec = TinyPolicy(train=train, dtype=dtype)
    policy = build_policy(spec, seed=0, start=tmp_path / "start.safetensors")
    assert policy.lora == (train == "lora")
    assert policy.parameters.dtype == (torch.float32 if train == "lora" else getattr(torch, dtype))
    if train == "full":
        assert torch.equal(policy.parameters.master, warm.parameters.master)
    else:
        frozen = [p for p in policy.model.parameters() if not p.requires_grad]
        assert sum(p.numel() for p in frozen) == warm.parameters.numel
        assert {p.dtype for p in frozen} == {getattr(torch, dtype)}
    train_steps(policy, 1)


def test_a_start_of_another_model_is_refused(tmp_path):
    save_file({"x": torch.zeros(1)}, tmp_path / "start.safetensors")
    with pytest.raises(ValueError, match="another model"):
        build_policy(TinyPolicy(lora=LoraSpec()), seed=0, start=tmp_path / "start.safetensors")
