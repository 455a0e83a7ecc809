"""Log-probs of completions with gradients, the prompt read once a group (2506.05433)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from hanse.policy.cache import pad_prompts, repeat_cache, repeat_rows, select_rows
from hanse.policy.functional_llama import functional_logits, group_mask, is_plain, logits_of
from hanse.policy.policy import Policy

_ROWS_AT_ONCE = 1 << 22
"""Vocabulary entries that the fused log-prob handles at once: bounds its scratch memory."""

_PACKED_SCORES = 1 << 14
"""Up to so many attention scores a group, completions are packed into one row: more scores, fewer calls."""


class _TokenLogProbs(torch.autograd.Function):
    """log p of given tokens, without keeping a softmax in memory."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, tokens: Tensor, temperature: float) -> Tensor:
        rows, V = logits.shape
        logp = logits.new_empty(rows, dtype=torch.float32)
        lse = torch.empty_like(logp)
        for part in _row_blocks(rows, V):
            scaled = _scaled(logits[part], temperature)
            lse[part] = scaled.logsumexp(-1)
            logp[part] = scaled.gather(-1, tokens[part].unsqueeze(-1)).squeeze(-1) - lse[part]
        ctx.save_for_backward(logits, tokens, lse)
        ctx.temperature = temperature
        return logp

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        logits, tokens, lse = ctx.saved_tensors
        grad_logp = (gradients[0] / ctx.temperature).unsqueeze(-1)
        grad = torch.empty_like(logits)
        for part in _row_blocks(*logits.shape):
            scaled = _scaled(logits[part], ctx.temperature)
            block = torch.sub(scaled, lse[part].unsqueeze(-1), out=_float32(grad[part])).exp_()
            block.mul_(-grad_logp[part]).scatter_add_(-1, tokens[part].unsqueeze(-1), grad_logp[part])
            if block.dtype != grad.dtype:
                grad[part] = block
        return grad, None, None


def _scaled(logits: Tensor, temperature: float) -> Tensor:
    """The very same tensor where there is nothing to do: not to be written to."""
    return logits.float() if temperature == 1 else logits.float() / temperature


def _float32(place: Tensor) -> Tensor | None:
    """Where float32 results can be written to, if they can."""
    return place if place.dtype == torch.float32 else None


def _row_blocks(rows: int, width: int) -> list[slice]:
    step = max(1, _ROWS_AT_ONCE // width)
    return [slice(start, start + step) for start in range(0, rows, step)]


def token_logprobs(logits_NTV: Tensor, tokens_NT: Tensor, temperature: float) -> Tensor:
    """Log-prob of each token at `temperature`. Float32, shape (N, T)."""
    N, T, V = logits_NTV.shape
    logp: Tensor = _TokenLogProbs.apply(  # type: ignore[no-untyped-call]
        logits_NTV.reshape(N * T, V), tokens_NT.reshape(N * T), temperature
    )
    return logp.view(N, T)


def completion_logprobs(
    policy: Policy, prompts_P: list[tuple[int, ...]], tokens_PGT: Tensor, temperature: float
) -> Tensor:
    """Log-probs of `G` completions of each prompt, shape (P, G, T), differentiable.

    What stands behind a completion's end is computed and means nothing: mask it by length.
    """
    P, G, T = tokens_PGT.shape
    ids, lengths = pad_prompts(prompts_P, policy.pad_id, tokens_PGT.device)
    if not policy.shared_prompt or G == 1:
        logits = _plain_logits(policy, ids, lengths, tokens_PGT)
        return token_logprobs(logits, tokens_PGT.view(P * G, T), temperature).view(P, G, T)
    row = ids.shape[1] + G * (T - 1)
    packed = row * row <= _PACKED_SCORES and is_plain(policy.model)
    first, rest = (_packed_logits if packed else _cached_logits)(policy, ids, lengths, tokens_PGT)
    begun = token_logprobs(first.expand(P, G, -1), tokens_PGT[:, :, 0], temperature).unsqueeze(-1)
    if T == 1:
        return begun
    inner = tokens_PGT[:, :, 1:].reshape(P * G, T - 1)
    return torch.cat([begun, token_logprobs(rest, inner, temperature).view(P, G, T - 1)], -1)


def _positions(lengths_P: Tensor, width: int) -> Tensor:
    return torch.arange(width, device=lengths_P.device) - (width - lengths_P).unsqueeze(1)


def _cached_logits(
    policy: Policy, ids_PL: Tensor, lengths_P: Tensor, tokens_PGT: Tensor
) -> tuple[Tensor, Tensor]:
    """Logits of the first token, shared by a prompt's completions (P, 1, V), and of the rest (P*G, T-1, V).

    The prompt goes through the model once; gradients flow back through its cache.
    """
    P, G, T = tokens_PGT.shape
    positions = _positions(lengths_P, ids_PL.shape[1])
    mask = (positions >= 0).long() if bool((lengths_P != ids_PL.shape[1]).any()) else None
    cache, forward = DynamicCache(), logits_of(policy.model)
    first = forward(ids_PL, positions.clamp(min=0), mask, cache, keep=1)
    if T == 1:
        return first, first[:, 1:]
    if mask is not None:
        mask = torch.cat([repeat_rows(mask, G), mask.new_ones(P * G, T - 1)], 1)
    inputs = tokens_PGT[:, :, :-1].reshape(P * G, T - 1)
    follow = lengths_P.unsqueeze(1) + torch.arange(T - 1, device=inputs.device)
    return first, forward(inputs, repeat_rows(follow, G), mask, repeat_cache(cache, G))


def _packed_logits(
    policy: Policy, ids_PL: Tensor, lengths_P: Tensor, tokens_PGT: Tensor
) -> tuple[Tensor, Tensor]:
    """The same for short completions in one pass: a prompt and all of its completions are one row."""
    P, G, T = tokens_PGT.shape
    L = ids_PL.shape[1]
    positions = _positions(lengths_P, L)
    follow = lengths_P.unsqueeze(1) + torch.arange(T - 1, device=ids_PL.device)
    logits = functional_logits(
        policy.model,
        torch.cat([ids_PL, tokens_PGT[:, :, :-1].flatten(1)], 1),
        torch.cat([positions.clamp(min=0), follow.repeat(1, G)], 1),
        group_mask(_distinct(positions >= 0), G, T - 1),
        cache=None,
        keep=1 + G * (T - 1),
    )
    return logits[:, :1], logits[:, 1:].reshape(P * G, T - 1, logits.shape[-1])


def _distinct(real_PL: Tensor) -> Tensor:
    """One row for all where nothing is padded."""
    return real_PL[:1] if bool(real_PL.all()) else real_PL


def _plain_logits(policy: Policy, ids_PL: Tensor, lengths_P: Tensor, tokens_PGT: Tensor) -> Tensor:
    """Prompt and completion in one row, as gradient checkpointing needs it."""
    P, G, T = tokens_PGT.shape
    L = ids_PL.shape[1]
    inputs = torch.cat([ids_PL.repeat_interleave(G, 0), tokens_PGT.reshape(P * G, T)[:, :-1]], 1)
    positions = _positions(lengths_P, L).repeat_interleave(G, 0)
    following = lengths_P.repeat_interleave(G).unsqueeze(1) + torch.arange(T - 1, device=inputs.device)
    positions = torch.cat([positions, following], 1)
    mask = (positions >= 0).long() if bool((lengths_P != L).any()) else None
    return logits_of(policy.model)(inputs, positions.clamp(min=0), mask, keep=T)


@dataclass(frozen=True)
class ReadPrompts:
    """Prompts that went through the model once, for any number of completions, without gradients.

    `first_PV`: logits of a completion's first token. Where the model's cache cannot be shared, prompts are
    read again with each completion.
    """

    policy: Policy
    prompts_P: list[tuple[int, ...]]
    first_PV: Tensor
    lengths_P: Tensor
    real_PL: Tensor
    cache: DynamicCache | None

    def follow(self, rows_N: Tensor, tokens_NT: Tensor) -> Tensor:
        """Logits of the tokens behind the first ones of N completions, those of the prompts `rows_N`. Shape
        (N, T - 1, V)."""
        if self.cache is None:
            prompts = [self.prompts_P[i] for i in rows_N.tolist()]
            ids, lengths = pad_prompts(prompts, self.policy.pad_id, tokens_NT.device)
            return _plain_logits(self.policy, ids, lengths, tokens_NT.unsqueeze(1))[:, 1:]
        inputs = tokens_NT[:, :-1]
        mask = None
        if not bool(self.real_PL.all()):
            mask = torch.cat([self.real_PL[rows_N].long(), torch.ones_like(inputs)], 1)
        follow = self.lengths_P[rows_N].unsqueeze(1) + torch.arange(inputs.shape[1], device=inputs.device)
        return logits_of(self.policy.model)(inputs, follow, mask, select_rows(self.cache, rows_N))


def read_prompts(policy: Policy, prompts_P: list[tuple[int, ...]], device: torch.device) -> ReadPrompts:
    """The prompts' part of completions' logits. Call it, and what it gives, without gradients."""
    ids, lengths = pad_prompts(prompts_P, policy.pad_id, device)
    positions = _positions(lengths, ids.shape[1])
    real = positions >= 0
    cache = DynamicCache() if policy.shared_prompt else None
    mask = None if bool(real.all()) else real.long()
    first = logits_of(policy.model)(ids, positions.clamp(min=0), mask, cache, keep=1)
    return ReadPrompts(policy, prompts_P, first[:, -1], lengths, real, cache)
