"""A scalar head on a policy's backbone: a completion's reward, read off its last token's hidden state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from peft import PeftModel
from torch import Tensor, nn

from hanse.errors import RecipeError
from hanse.policy.cache import pad_prompts
from hanse.policy.functional_llama import functional_hidden, is_plain
from hanse.policy.parameters import Parameters
from hanse.policy.policy import Policy
from hanse.tasks.problem import Prompt

Ids = tuple[int, ...]
HEAD = "head.weight"
"""The head's name among the trained tensors."""
_CHARACTERS_A_TOKEN = 32
"""Text beyond this many characters for each token that is read is not even tokenised."""


class Scored(nn.Module):
    """A causal language model with a head in the place of its output layer. The head starts at zero: then
    nothing is preferred, and clients of opposed tastes teach the backbone the same."""

    def __init__(self, backbone: nn.Module, hidden: int, device: torch.device) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(hidden, 1, bias=False, device=device)
        with torch.no_grad():
            self.head.weight.zero_()

    def forward(self, ids_NS: Tensor, lengths_N: Tensor) -> Tensor:
        """Scores of left-padded rows with so many real tokens, float32, shape (N,)."""
        width = ids_NS.shape[1]
        positions = torch.arange(width, device=ids_NS.device) - (width - lengths_N).unsqueeze(1)
        mask = (positions >= 0).long() if bool((lengths_N != width).any()) else None
        last = self._last_hidden(ids_NS, positions.clamp(min=0), mask)
        scores: Tensor = self.head(last.float()).squeeze(-1)
        return scores

    def _last_hidden(self, ids_NS: Tensor, positions_NS: Tensor, mask: Tensor | None) -> Tensor:
        model: Any = self.backbone
        if is_plain(model):
            return functional_hidden(model.model, ids_NS, positions_NS, mask, keep=1)[:, -1]
        decoder = _decoder(model)
        body = getattr(decoder, decoder.base_model_prefix)
        out = body(input_ids=ids_NS, attention_mask=mask, position_ids=positions_NS, use_cache=False)
        states: Tensor = out.last_hidden_state
        return states[:, -1]


@dataclass
class RewardModel:
    """A Bradley–Terry model. `policy`: its tokenizer and backbone, whose own view of parameters is not used;
    `parameters`: what trains, the head among it; `max_tokens`: of a completion are read."""

    policy: Policy
    module: Scored
    parameters: Parameters
    max_tokens: int

    @classmethod
    def on(cls, policy: Policy, *, max_tokens: int, train_backbone: bool = True) -> RewardModel:
        """A fresh head on a policy. Raises RecipeError for a model without hidden states to read."""
        model: Any = policy.model
        hidden = getattr(model.config.get_text_config(), "hidden_size", None)
        decoder = _decoder(model)
        if hidden is None or not hasattr(decoder, decoder.base_model_prefix):
            problem = f"models of type {model.config.model_type!r} show no hidden states to put a head on."
            raise RecipeError("policy.path", problem, "Use a decoder as Llama, Qwen, Mistral or SmolLM.")
        _rest(decoder, train_backbone, policy.lora)
        module = Scored(model, int(hidden), policy.device)
        module.eval()
        return cls(policy, module, Parameters(module), min(max_tokens, policy.context - 2))

    @property
    def head_entries(self) -> slice:
        """Where the head lies in the flat vector."""
        start = 0
        for name, view in self.parameters.views(self.parameters.master).items():
            if name == HEAD:
                return slice(start, start + view.numel())
            start += view.numel()
        raise RuntimeError("the head does not train")

    def encode(self, prompt: Prompt, completion: str) -> Ids:
        """Prompt, completion and end token. Of a longer completion the first `max_tokens` are read, of the
        prompt as much as still fits, its end. Raises RecipeError as `Policy.encode` does."""
        policy = self.policy
        text = completion[: _CHARACTERS_A_TOKEN * self.max_tokens]
        answer: list[int] = policy.tokenizer(text, add_special_tokens=False)["input_ids"]
        tail = (*answer[: self.max_tokens], policy.eos_ids[0])
        room = policy.context - len(tail)
        return (*policy.encode(prompt)[-room:], *tail)

    def scores(self, rows_N: Sequence[Ids]) -> Tensor:
        """Rewards of encoded completions, shape (N,), differentiable."""
        ids, lengths = pad_prompts(list(rows_N), self.policy.pad_id, self.parameters.master.device)
        scored: Tensor = self.module(ids, lengths)
        return scored

    @torch.no_grad()
    def score_all(self, rows_N: Sequence[Ids], batch: int = 64) -> Tensor:
        """Rewards without gradients, rows of similar length together, in the order given, on the CPU."""
        order = sorted(range(len(rows_N)), key=lambda i: len(rows_N[i]))
        found = torch.empty(len(rows_N))
        for start in range(0, len(order), batch):
            part = order[start : start + batch]
            found[part] = self.scores([rows_N[i] for i in part]).cpu()
        return found


def _decoder(model: Any) -> Any:
    return model.get_base_model() if isinstance(model, PeftModel) else model


def _rest(decoder: Any, train_backbone: bool, lora: bool) -> None:
    """Freeze what does not train: all, or the output layer, which no score depends on."""
    if not train_backbone:
        decoder.requires_grad_(False)
    elif not lora:
        output, inputs = decoder.get_output_embeddings(), decoder.get_input_embeddings()
        if output is not None and output.weight is not inputs.weight:
            output.requires_grad_(False)
