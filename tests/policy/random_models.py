"""Random models of many architectures, small enough to be written, loaded and trained in milliseconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM

from hanse.grpo.learner import Learner
from hanse.grpo.step import assign_advantages
from hanse.policy.policy import Policy
from hanse.policy.sampler import Sampler, Sampling
from hanse.policy.tiny import tiny_tokenizer
from hanse.randomness import generator
from hanse.recipe.model import GrpoSpec
from hanse.tasks.problem import Problem
from hanse.tasks.vocabulary import Vocabulary

WINDOW = 6
"""Of the models with sliding attention: shorter than every test's sequences."""
PROBLEMS = [Problem("a", "abcdefgh"), Problem("b", "abc"), Problem("c", "hello world and more")]
VOCABULARY = 80
"""More than the tokenizer's tokens, as with many real models."""

_TOKENIZER = tiny_tokenizer(
    Vocabulary(tuple("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ, 0123456789+="), "characters")
)
_HEADS = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": None,
}
_GROUPED = {**_HEADS, "num_key_value_heads": 2}
_WIDE = {**_GROUPED, "head_dim": 8}
_HALF_SLIDING = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
_GPT2 = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
_SMALL = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2}
_ENDS = {"eos_token_id": 1, "bos_token_id": None}

ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", _GROUPED),
    "qwen2": ("Qwen2Config", {**_GROUPED, "tie_word_embeddings": True}),
    "qwen3": ("Qwen3Config", _WIDE),
    "gemma3": ("Gemma3TextConfig", {**_WIDE, **_HALF_SLIDING}),
    "gemma2": ("Gemma2Config", {**_WIDE, **_HALF_SLIDING}),
    "mistral": ("MistralConfig", {**_GROUPED, "sliding_window": WINDOW}),
    "mixtral": ("MixtralConfig", {**_GROUPED, "sliding_window": WINDOW, "num_local_experts": 4}),
    "gpt_neox": ("GPTNeoXConfig", _HEADS),
    "gpt2": ("GPT2Config", {**_GPT2, **_ENDS}),
}
STATEFUL: dict[str, tuple[str, dict[str, Any]]] = {
    "mamba": ("MambaConfig", {**_SMALL, **_ENDS}),
    "lfm2": ("Lfm2Config", {**_GROUPED, "layer_types": ["conv", "full_attention"]}),
    "rwkv": ("RwkvConfig", {**_SMALL, **_ENDS}),
}


def write_model(folder: Path, architecture: str, dtype: torch.dtype = torch.float32, **changes: Any) -> Path:
    """A model folder with random weights, large enough for peaked predictions, and a character tokenizer."""
    name, fields = (ARCHITECTURES | STATEFUL)[architecture]
    config = getattr(transformers, name)(**{**fields, **changes})
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.dim() > 1:
                values = generator("test", key).normal(0, 0.15, tuple(parameter.shape))
                parameter.copy_(torch.from_numpy(values))
    model.to(dtype).save_pretrained(folder)
    _TOKENIZER.save_pretrained(folder)
    return folder


def train_steps(policy: Policy, count: int = 2, **settings: Any) -> Learner:
    """Steps with random rewards, so that every trained tensor moves."""
    spec = GrpoSpec(**{"group_size": 4, "prompts_per_step": 3, "max_new_tokens": 8, "lr": 1e-2, **settings})
    learner = Learner(policy, spec, total_steps=count)
    for step in range(count):
        groups = Sampler(policy, Sampling(max_new_tokens=8)).sample(PROBLEMS, spec.group_size, [step, 8, 9])
        for i, group in enumerate(groups):
            rewards = generator("rewards", step, i).random(spec.group_size)
            group.rewards_G = torch.from_numpy(rewards)
        assign_advantages(groups, spec)
        learner.step(groups)
    return learner


@torch.no_grad()
def logits(model: Any, tokenizer: Any, text: str = "hello world, 1+2=") -> torch.Tensor:
    """Logits of a plain forward pass, shape (1, length, V)."""
    ids = torch.tensor([tokenizer(text)["input_ids"]])
    result: torch.Tensor = model.eval()(input_ids=ids).logits
    return result
