"""The policy: a causal language model, its tokenizer, and which of its parameters train."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from hanse.errors import RecipeError
from hanse.policy.offset import BaseOffset
from hanse.policy.parameters import Parameters
from hanse.tasks.problem import Prompt


@dataclass
class Policy:
    """A model that samples and learns. `model` may be a peft wrapper.

    `base_name` (with `base_revision`) is the hub id or folder that LoRA sits on. None: an exported adapter
    takes its base along, as a copy of the folder `base_files` or, without one, of the model in memory.
    `offset`: what is added to the base under LoRA, if anything is.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    parameters: Parameters
    eos_ids: tuple[int, ...]
    pad_id: int
    context: int
    lora: bool = False
    base_name: str | None = None
    base_revision: str | None = None
    base_files: Path | None = None
    shared_prompt: bool = True
    offset: BaseOffset | None = None
    _reference: Tensor | None = None
    _encoded: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def device(self) -> torch.device:
        return self.parameters.master.device

    @property
    def computes_in_float32(self) -> bool:
        """Whether sampler and learner agree to rounding; adapters may be float32 on a bfloat16 base."""
        return all(p.dtype == torch.float32 for p in self.model.parameters())

    @property
    def vocabulary(self) -> int:
        """Number of logits a position."""
        return int(self.model.config.get_text_config().vocab_size)

    def load(self, values: Tensor) -> None:
        """Take over flat float32 values: the trained ones, shape (numel,), and behind them perhaps an offset
        of the base, one (out, in) matrix for each adapted module."""
        trained, offset = values.split([self.parameters.numel, len(values) - self.parameters.numel])
        self.parameters.load(trained)
        if len(offset):
            self.offset = self.offset or BaseOffset(self.model, self.parameters.names)
            self.offset.set(offset)
        elif self.offset is not None:
            self.offset.clear()
            self.offset = None

    def sha256(self) -> str:
        """Over everything that training has changed, as the model computes with it."""
        if self.offset is None:
            return self.parameters.sha256()
        return hashlib.sha256(f"{self.parameters.sha256()}{self.offset.sha256()}".encode()).hexdigest()

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        """Token ids of a prompt. Messages go through the model's chat template.

        Raises RecipeError when messages meet a tokenizer without a template.
        """
        key = prompt if isinstance(prompt, str) else json.dumps(list(map(dict, prompt)))
        if key not in self._encoded:
            self._encoded[key] = tuple(self._encode(prompt))
        return self._encoded[key]

    def _encode(self, prompt: Prompt) -> list[int]:
        if isinstance(prompt, str):
            ids: list[int] = self.tokenizer(prompt)["input_ids"]
            return ids
        if not self.tokenizer.chat_template:
            raise RecipeError(
                "policy.path",
                "the prompts are chat messages, and this model's tokenizer has no chat template.",
                "Use an instruction-tuned model, or give plain string prompts (task.chat = false).",
            )
        text = self.tokenizer.apply_chat_template(
            list(map(dict, prompt)), tokenize=False, add_generation_prompt=True
        )
        templated: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return templated

    def decode(self, token_ids_N: Sequence[Sequence[int]]) -> list[str]:
        """The text of completions, without special tokens."""
        rows = [list(ids) for ids in token_ids_N]
        tokenizer: Any = self.tokenizer
        if type(tokenizer) is PreTrainedTokenizerFast and not tokenizer.clean_up_tokenization_spaces:
            return list(tokenizer.backend_tokenizer.decode_batch(rows, skip_special_tokens=True))
        return list(tokenizer.batch_decode(rows, skip_special_tokens=True))

    def freeze_reference(self) -> None:
        """Remember the current values as the KL reference; LoRA needs no copy, its reference is the base."""
        if not self.lora:
            self._reference = self.parameters.cast.clone()

    @contextmanager
    def reference(self) -> Iterator[None]:
        """Compute as the reference policy inside the block."""
        original = nullcontext() if self.offset is None else self.offset.suspended()
        with original, self._reference_context():
            yield

    def _reference_context(self) -> AbstractContextManager[Any]:
        if self.lora:
            context: AbstractContextManager[Any] = self.model.disable_adapter()  # type: ignore[operator]
            return context
        if self._reference is None:
            raise RuntimeError("freeze_reference() was not called")
        return self.parameters.replaced_by(self._reference) if self._reference is not None else nullcontext()


def end_token_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Every id that ends a completion: the generation config's (often several) and the tokenizer's."""
    listed = model.generation_config.eos_token_id if model.generation_config is not None else None
    ids = set(listed if isinstance(listed, list) else [listed]) | {tokenizer.eos_token_id}
    return tuple(sorted(i for i in ids if i is not None))
