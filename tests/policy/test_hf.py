import json
import shutil

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from hanse.errors import RecipeError
from hanse.policy import hf, recompute
from hanse.policy.build import build_policy
from hanse.policy.export import save_policy
from hanse.policy.logprobs import completion_logprobs
from hanse.policy.sampler import Sampler, Sampling
from hanse.recipe.model import HfPolicy
from policy.random_models import PROBLEMS, logits, train_steps, write_model


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("llama"), "llama")


def policy_of(path, **fields):
    return build_policy(HfPolicy(type="hf", path=str(path), **{"train": "full", **fields}), seed=0)


def test_a_folder_becomes_a_policy_with_the_model_s_own_logits(llama):
    policy = policy_of(llama)
    plain = AutoModelForCausalLM.from_pretrained(llama)
    assert torch.equal(logits(policy.model, policy.tokenizer), logits(plain, policy.tokenizer))
    assert policy.context == 128 and policy.vocabulary == plain.config.vocab_size
    assert not policy.model.training and policy.base_name == str(llama)


def test_all_end_tokens_of_model_tokenizer_and_chat_template_count(llama, tmp_path):
    folder = write_model(tmp_path / "m", "llama")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 9]}))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<turn>"]})
    assert tokenizer.convert_tokens_to_ids("<turn>") == 68
    tokenizer.save_pretrained(folder)
    assert policy_of(folder).eos_ids == (1, 7, 9)
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}<turn>{% endfor %}"
    tokenizer.save_pretrained(folder)
    assert policy_of(folder).eos_ids == (1, 7, 9, 68)


def test_without_a_pad_token_the_end_token_pads(llama, tmp_path):
    folder = shutil.copytree(llama, tmp_path / "m")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    del settings["pad_token"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    assert policy_of(folder).pad_id == 1


def test_a_hub_id_that_cannot_be_reached_is_refused_with_a_remedy(monkeypatch):
    monkeypatch.setattr(hf, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        RecipeError, match=r"policy\.path: nobody/nothing is not on this machine.*hf download"
    ):
        policy_of("nobody/nothing")


def test_a_cached_hub_model_needs_no_hub(llama, tmp_path, monkeypatch):
    monkeypatch.setattr(hf, "try_to_load_from_cache", lambda *_, **__: str(llama / "config.json"))
    policy = policy_of("someone/llama", revision="abc", train="lora")
    assert policy.base_name == "someone/llama" and policy.base_revision == "abc"


def test_without_a_connection_the_error_comes_at_once(monkeypatch):
    monkeypatch.setattr(hf, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hf, "ENDPOINT", "http://localhost:9")
    monkeypatch.setattr(hf, "getproxies", dict)
    with pytest.raises(RecipeError, match=r"policy\.path: nobody/nothing .* the hub does not give it"):
        policy_of("nobody/nothing")


@pytest.mark.parametrize("path", ["./nowhere", "/nowhere/at/all", "a/b/c", "no such id?"])
def test_paths_that_are_neither_folder_nor_id(path):
    with pytest.raises(RecipeError, match=r"policy\.path: .*(no folder|neither a folder nor)"):
        policy_of(path)


def test_broken_folders_are_refused(llama, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecipeError, match=r"policy\.path: .*empty cannot be loaded"):
        policy_of(tmp_path / "empty")
    cut = shutil.copytree(llama, tmp_path / "cut")
    (cut / "model.safetensors").write_bytes((cut / "model.safetensors").read_bytes()[:5000])
    with pytest.raises(RecipeError, match=r"policy\.path: .*cut cannot be loaded"):
        policy_of(cut)
    deeper = shutil.copytree(llama, tmp_path / "deeper")
    config = json.loads((deeper / "config.json").read_text())
    (deeper / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3, "layer_types": None}))
    with pytest.raises(RecipeError, match=r"policy\.path: .*deeper lacks 9 of its model's tensors"):
        policy_of(deeper)
    (deeper / "config.json").write_text(json.dumps({**config, "model_type": "unheard-of"}))
    with pytest.raises(RecipeError, match=r"policy\.path: .*cannot be loaded"):
        policy_of(deeper)


def test_a_device_that_is_not_there_is_refused(llama):
    missing = "cuda" if not torch.cuda.is_available() else "cuda:99"
    for device in (missing, "abacus"):
        with pytest.raises(RecipeError, match=r"policy\.device: "):
            policy_of(llama, device=device)


def test_an_adapter_folder_is_loaded_merged(llama, tmp_path):
    policy = policy_of(llama, train="lora")
    train_steps(policy)
    save_policy(policy, tmp_path / "adapter")
    merged = policy_of(tmp_path / "adapter")
    assert not merged.lora and merged.parameters.numel == policy_of(llama).parameters.numel
    expected = logits(policy.model, policy.tokenizer)
    torch.testing.assert_close(logits(merged.model, merged.tokenizer), expected, atol=1e-5, rtol=0)
    assert merged.base_name is None


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "gemma3"])
@pytest.mark.parametrize("train", ["full", "lora"])
def test_gradient_checkpointing_changes_memory_not_gradients(architecture, train, tmp_path, monkeypatch):
    path = write_model(
        tmp_path / "m", architecture, **({"attn_pdrop": 0.5} if architecture == "gpt2" else {})
    )
    calls = []
    real = recompute.checkpoint
    monkeypatch.setattr(recompute, "checkpoint", lambda *a, **k: calls.append(1) or real(*a, **k))
    results = {}
    for checkpointing in (False, True):
        policy = policy_of(path, train=train, gradient_checkpointing=checkpointing)
        assert policy.shared_prompt != checkpointing
        groups = Sampler(policy, Sampling(max_new_tokens=6)).sample(PROBLEMS, 2, [1, 2, 3])
        tokens = torch.stack([g.tokens_GT for g in groups])
        mask = torch.stack([g.mask_GT for g in groups])
        policy.parameters.start_gradients()
        logp = completion_logprobs(policy, [g.prompt_ids for g in groups], tokens, 1.0)
        (logp * mask).sum().backward()
        results[checkpointing] = (logp.detach()[mask], policy.parameters.grad.clone())
    assert len(calls) == 2
    torch.testing.assert_close(results[True][0], results[False][0], atol=5e-6, rtol=0)
    plain = results[False][1]
    assert (results[True][1] - plain).norm() < 1e-5 * plain.norm()


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_the_tables_of_tokens_rest_unless_asked_to_train(architecture, tmp_path):
    path = write_model(tmp_path / "m", architecture)
    policy = policy_of(path)
    tables = [policy.model.get_input_embeddings().weight, policy.model.get_output_embeddings().weight]
    before = [table.detach().clone() for table in tables]
    train_steps(policy)
    assert all(torch.equal(table, old) for table, old in zip(tables, before, strict=True))
    assert not any("embed" in name or "lm_head" in name for name in policy.parameters.names)
    whole = policy_of(path, embeddings="train")
    frozen = sum(table.numel() for table in {id(t): t for t in tables}.values())
    assert whole.parameters.numel == policy.parameters.numel + frozen
    first = whole.model.get_input_embeddings().weight.detach().clone()
    train_steps(whole)
    assert not torch.equal(whole.model.get_input_embeddings().weight, first)


def test_changed_frozen_tables_are_told(llama, tmp_path):
    from safetensors.torch import load_file, save_file

    from hanse.errors import RunError
    from hanse.policy.export import load_trained

    save_policy(policy_of(llama), tmp_path / "out")
    assert load_trained(tmp_path / "out").parameters.names == policy_of(llama).parameters.names
    file = tmp_path / "out" / "model.safetensors"
    tensors = load_file(file)
    tensors["model.embed_tokens.weight"][3] += 1
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(RunError, match="frozen tensors are not those"):
        load_trained(tmp_path / "out")
