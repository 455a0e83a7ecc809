import json
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from peft import AutoPeftModelForCausalLM, PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from hanse.errors import RunError
from hanse.policy import export
from hanse.policy.build import build_policy
from hanse.policy.export import copy_policy, load_trained, merge_policy, save_policy
from hanse.policy.lora import base_sha256
from hanse.recipe.model import HfPolicy, LoraSpec, TinyPolicy
from policy.random_models import ARCHITECTURES, logits, train_steps, write_model


def trained(path, **fields):
    policy = build_policy(HfPolicy(type="hf", path=str(path), **fields), seed=0)
    train_steps(policy)
    return policy


def own_logits(policy):
    return logits(policy.model, policy.tokenizer)


def saved(policy, folder):
    save_policy(policy, folder, card="# A card")
    return folder


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_full_model_loads_with_plain_transformers_in_the_evaluated_dtype(architecture, tmp_path):
    dtype = "bfloat16" if architecture in ("qwen2", "gemma2") else "float32"
    policy = trained(write_model(tmp_path / "m", architecture), train="full", dtype=dtype)
    folder = saved(policy, tmp_path / "out")
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert model.dtype == getattr(torch, dtype)
    assert torch.equal(logits(model, tokenizer), own_logits(policy))
    assert (folder / "README.md").read_text() == "# A card"
    assert load_trained(folder).parameters.sha256() == policy.parameters.sha256()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("rslora", [False, True])
def test_an_adapter_loads_with_plain_peft_and_leaves_the_base_alone(architecture, rslora, tmp_path):
    path = write_model(tmp_path / "m", architecture)
    before = base_sha256(AutoModelForCausalLM.from_pretrained(path))
    policy = trained(path, train="lora", lora=LoraSpec(rank=4, rslora=rslora))
    folder = saved(policy, tmp_path / "out")
    assert {f.name for f in folder.iterdir()} >= {"adapter_model.safetensors", "adapter_config.json"}
    assert json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"] == str(path)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for model in (
        PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(path), folder),
        AutoPeftModelForCausalLM.from_pretrained(folder),
        AutoModelForCausalLM.from_pretrained(folder),
    ):
        assert torch.equal(logits(model, tokenizer), own_logits(policy))
    assert base_sha256(policy.model) == before == base_sha256(AutoModelForCausalLM.from_pretrained(path))


def test_a_fresh_process_without_hanse_gets_the_same_logits(tmp_path):
    policy = trained(write_model(tmp_path / "m", "qwen3"), train="lora")
    folder = saved(policy, tmp_path / "out")
    torch.save(own_logits(policy), tmp_path / "expected.pt")
    code = f"""
import sys, torch
from peft import AutoPeftModelForCausalLM
from transformers import AutoTokenizer
torch.set_num_threads({torch.get_num_threads()})
model = AutoPeftModelForCausalLM.from_pretrained({str(folder)!r}).eval()
ids = torch.tensor([AutoTokenizer.from_pretrained({str(folder)!r})("hello world, 1+2=")["input_ids"]])
with torch.no_grad():
    assert torch.equal(model(input_ids=ids).logits, torch.load({str(tmp_path / "expected.pt")!r}))
assert not any(name.startswith("hanse") for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_tiny_policy_takes_its_base_along(dtype, tmp_path):
    policy = build_policy(TinyPolicy(train="lora", dtype=dtype), seed=0)
    train_steps(policy)
    folder = saved(policy, tmp_path / "out")
    base = AutoModelForCausalLM.from_pretrained(folder / "base")
    assert base.dtype == getattr(torch, dtype) and base_sha256(base) == base_sha256(policy.model)
    model = AutoPeftModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert torch.equal(
        logits(model, tokenizer, "123+456="), logits(policy.model, policy.tokenizer, "123+456=")
    )


def test_a_base_in_files_is_copied_and_loads_in_the_evaluated_dtype(tmp_path):
    policy = trained(write_model(tmp_path / "m", "llama", torch.bfloat16), train="lora", dtype="float32")
    policy.base_name, policy.base_files = None, tmp_path / "m"
    folder = saved(policy, tmp_path / "out")
    assert load_file(folder / "base/model.safetensors")["lm_head.weight"].dtype == torch.bfloat16
    model = AutoPeftModelForCausalLM.from_pretrained(folder)
    assert torch.equal(logits(model, policy.tokenizer), own_logits(policy))


def test_a_moved_adapter_finds_its_base_and_a_copy_names_its_own(tmp_path):
    policy = build_policy(TinyPolicy(train="lora"), seed=0)
    train_steps(policy)
    saved(policy, tmp_path / "out").rename(tmp_path / "moved")
    assert load_trained(tmp_path / "moved").parameters.sha256() == policy.parameters.sha256()
    copy_policy(tmp_path / "moved", tmp_path / "copy")
    config = json.loads((tmp_path / "copy" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(tmp_path / "copy" / "base")
    AutoPeftModelForCausalLM.from_pretrained(tmp_path / "copy")


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gpt2", "mixtral"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_merging_gives_a_full_model_and_does_not_touch_the_policy(architecture, dtype, tmp_path):
    policy = trained(write_model(tmp_path / "m", architecture), train="lora", dtype=dtype)
    before = (base_sha256(policy.model), policy.parameters.sha256())
    merge_policy(policy, tmp_path / "direct")
    merge_policy(saved(policy, tmp_path / "out"), tmp_path / "merged", card="# Merged")
    assert (base_sha256(policy.model), policy.parameters.sha256()) == before
    first, second = (load_file(tmp_path / n / "model.safetensors") for n in ("direct", "merged"))
    assert first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert model.dtype == getattr(torch, dtype) and not (tmp_path / "merged/adapter_config.json").exists()
    difference = logits(model, policy.tokenizer) - own_logits(policy)
    assert difference.abs().max() < (1e-5 if dtype == "float32" else 0.2)


def test_saving_again_replaces_the_folder(tmp_path):
    policy = trained(write_model(tmp_path / "m", "llama"), train="lora")
    folder = saved(policy, tmp_path / "out")
    (folder / "left over").touch()
    files = {f.name: f.read_bytes() for f in folder.iterdir() if f.name != "left over"}
    saved(policy, folder)
    assert {f.name: f.read_bytes() for f in folder.iterdir()} == files
    assert {p.name for p in tmp_path.iterdir()} == {"m", "out"}


def test_a_failed_save_leaves_the_folder_as_it_was(tmp_path, monkeypatch):
    policy = trained(write_model(tmp_path / "m", "llama"), train="full")
    folder = saved(policy, tmp_path / "out")
    files = {f.name: f.read_bytes() for f in folder.iterdir()}
    monkeypatch.setattr(export, "_record", lambda policy: SimpleNamespace())
    train_steps(policy)
    with pytest.raises(TypeError):
        saved(policy, folder)
    assert {f.name: f.read_bytes() for f in folder.iterdir()} == files
    assert {p.name for p in tmp_path.iterdir()} == {"m", "out"}


@pytest.fixture(scope="module")
def adapter(tmp_path_factory):
    root = tmp_path_factory.mktemp("adapter")
    return saved(trained(write_model(root / "m", "llama"), train="lora"), root / "out")


def spoilt(adapter, target, change):
    folder = shutil.copytree(adapter, target)
    tensors = load_file(folder / "adapter_model.safetensors")
    change(tensors)
    save_file(tensors, folder / "adapter_model.safetensors")
    return folder


def first_b(tensors):
    return next(name for name in sorted(tensors) if "lora_B" in name)


def test_strict_loading_refuses_what_does_not_fit(adapter, tmp_path):
    def missing(t):
        del t[first_b(t)]

    def unexpected(t):
        t["base_model.model.model.layers.9.mlp.up_proj.lora_A.weight"] = torch.zeros(8, 32)

    def renamed(t):
        t["model." + first_b(t)] = t.pop(first_b(t))

    def reshaped(t):
        t[first_b(t)] = t[first_b(t)][:, :4].clone()

    def idle(t):
        t[first_b(t)].zero_()

    def changed(t):
        t[first_b(t)].view(-1)[0] += 1

    cases = [
        (missing, "1 adapter tensors are missing"),
        (unexpected, "1 unexpected"),
        (renamed, "1 adapter tensors are missing and 1 unexpected"),
        (reshaped, r"has the shape \(\d+, 4\), not \(\d+, 8\)"),
        (idle, "1 adapters were never trained"),
        (changed, "trained tensors are not those that were saved"),
    ]
    load_trained(adapter, LoraSpec())
    for change, message in cases:
        with pytest.raises(RunError, match=message):
            load_trained(spoilt(adapter, tmp_path / change.__name__, change))


def test_an_untrained_adapter_loads_only_if_that_is_meant(tmp_path):
    path = write_model(tmp_path / "m", "llama")
    policy = build_policy(HfPolicy(type="hf", path=str(path), train="lora"), seed=0)
    folder = saved(policy, tmp_path / "out")
    with pytest.raises(RunError, match="never trained"):
        load_trained(folder)
    assert load_trained(folder, allow_untrained=True).parameters.sha256() == policy.parameters.sha256()


def test_another_base_is_refused(adapter, tmp_path):
    folder = shutil.copytree(adapter, tmp_path / "out")
    config = json.loads((folder / "adapter_config.json").read_text())
    base = shutil.copytree(config["base_model_name_or_path"], tmp_path / "base")
    tensors = load_file(base / "model.safetensors")
    tensors["lm_head.weight"][0, 0] += 1
    save_file(tensors, base / "model.safetensors", metadata={"format": "pt"})
    for path, message in ((base, "not what was trained on"), (tmp_path / "none", "no folder")):
        config["base_model_name_or_path"] = str(path)
        (folder / "adapter_config.json").write_text(json.dumps(config))
        with pytest.raises(RunError, match=message):
            load_trained(folder)


def test_folders_that_are_none_of_ours_are_refused(adapter, tmp_path):
    with pytest.raises(RunError, match="not a policy that hanse saved"):
        load_trained(tmp_path)
    folder = shutil.copytree(adapter, tmp_path / "cut")
    (folder / "adapter_model.safetensors").write_bytes(b"\x10")
    with pytest.raises(RunError, match="cannot be read"):
        load_trained(folder)
    config = json.loads((adapter / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps({**config, "use_dora": True}))
    with pytest.raises(RunError, match="only plain LoRA"):
        load_trained(folder)


def test_a_full_model_with_a_changed_or_missing_tensor_is_refused(tmp_path):
    folder = saved(trained(write_model(tmp_path / "m", "llama"), train="full"), tmp_path / "out")
    tensors = load_file(folder / "model.safetensors")

    def reload(message, **changes):
        kept = {k: v for k, v in (tensors | changes).items() if v is not None}
        save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(RunError, match=message):
            load_trained(folder)

    reload("lacks 1 of its", **{"model.norm.weight": None})
    reload("unexpected tensors, first extra", extra=torch.zeros(1))
    reload("not those that were saved", **{"model.norm.weight": tensors["model.norm.weight"] * 2})
