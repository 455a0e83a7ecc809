"""The forward of a small Llama as plain functions.

In a model of a few million parameters, module calls, mask building and unfused norms cost as much as the
matrix products. This computes what `LlamaForCausalLM` computes, with the same cache, in fewer and larger
operations. Any other model runs through its own forward.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu
from transformers import LlamaForCausalLM, PreTrainedModel
from transformers.cache_utils import DynamicCache

from hanse.policy.by_group import Sink, embedding, linear, sink_of

_MAX_HIDDEN = 512
"""Beyond this width the matrix products dominate, and the model's own forward is as fast."""


class Logits(Protocol):
    """Logits of the last `keep` positions (0: all), shape (N, keep, V). `cache` is read and extended.

    `mask`: which of the cached and new positions are real, shape (N, past + S); None: all are. The functional
    forward also takes what is to be added to attention scores, shape (N or 1, 1, S, past + S).
    """

    def __call__(
        self,
        ids_NS: Tensor,
        positions_NS: Tensor,
        mask: Tensor | None,
        cache: DynamicCache | None = None,
        keep: int = 0,
    ) -> Tensor: ...


def logits_of(model: PreTrainedModel) -> Logits:
    """The functional forward of a plain model, the own forward of any other."""
    return partial(functional_logits if is_plain(model) else _own_logits, model)


def _own_logits(
    model: PreTrainedModel,
    ids_NS: Tensor,
    positions_NS: Tensor,
    mask: Tensor | None,
    cache: DynamicCache | None = None,
    keep: int = 0,
) -> Tensor:
    logits: Tensor = model(
        input_ids=ids_NS,
        attention_mask=mask,
        position_ids=positions_NS,
        cache=cache,
        use_cache=cache is not None,
        logits_to_keep=keep,
    ).logits
    return logits


def is_plain(model: PreTrainedModel) -> bool:
    """Whether the model is a small float32 Llama in which nothing was added, wrapped or hooked."""
    if type(model) is not LlamaForCausalLM:
        return False
    config = model.config
    return bool(
        config.hidden_size <= _MAX_HIDDEN
        and config.num_key_value_heads == config.num_attention_heads
        and config.hidden_act == "silu"
        and config._attn_implementation == "sdpa"
        and model.model.rotary_emb.rope_type == "default"
        and model.lm_head.weight.dtype == torch.float32
        and not (model.training and config.attention_dropout)
        and all(_is_plain_layer(layer) for layer in model.model.layers)
        and _is_bare(model, model.model, model.model.norm, model.lm_head, model.model.embed_tokens)
    )


def _is_plain_layer(layer: Any) -> bool:
    attention, mlp = layer.self_attn, layer.mlp
    products = [attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj]
    products += [mlp.gate_proj, mlp.up_proj, mlp.down_proj]
    plain = all(type(product) is nn.Linear and product.bias is None for product in products)
    return plain and not layer.gradient_checkpointing and _is_bare(layer, attention, mlp, *products)


def _is_bare(*modules: nn.Module) -> bool:
    """No hooks, no replaced forward."""
    return not any(m._forward_hooks or m._forward_pre_hooks or "forward" in m.__dict__ for m in modules)


def additive_mask(real_NK: Tensor, new: int) -> Tensor:
    """What is added to attention scores, shape (N, 1, new, K): causal, and no key that is not real.

    Every position sees itself, so that padding stays finite.
    """
    K = real_NK.shape[1]
    rows = torch.arange(K - new, K, device=real_NK.device).unsqueeze(1)
    columns = torch.arange(K, device=real_NK.device)
    allowed = (columns < rows) & real_NK.bool().unsqueeze(1) | (columns == rows)
    return _additive(allowed).unsqueeze(1)


def group_mask(real_PL: Tensor, group: int, new: int) -> Tensor:
    """For rows that hold a prompt and behind it `group` completions of `new` tokens, one after the other.

    Each sees the prompt and its own past, not its neighbours. Shape (P, 1, L + group*new, L + group*new).
    """
    P, L = real_PL.shape
    at = torch.arange(L + group * new, device=real_PL.device)
    member = torch.where(at < L, -1, (at - L) // max(1, new))
    visible = (member == member.unsqueeze(1)) | (member == -1)
    real = torch.cat([real_PL, real_PL.new_ones(P, group * new)], 1)
    allowed = visible & (at < at.unsqueeze(1)) & real.unsqueeze(1) | (at == at.unsqueeze(1))
    return _additive(allowed).unsqueeze(1)


def decoding_mask(real_PL: Tensor, group: int, new: int) -> Tensor:
    """For `group` completions that grow side by side: keys are the prompt, then `group` of each step.

    Shape (P, 1, group, L + group*new); a step uses as much of it as there are keys.
    """
    P, L = real_PL.shape
    own = torch.eye(group, dtype=torch.bool, device=real_PL.device).repeat(1, new)
    prompt = real_PL.unsqueeze(1).expand(P, group, L)
    return _additive(torch.cat([prompt, own.expand(P, -1, -1)], 2)).unsqueeze(1)


def _additive(allowed: Tensor) -> Tensor:
    return torch.zeros(allowed.shape, device=allowed.device).masked_fill_(~allowed, -torch.inf)


def functional_logits(
    model: Any,
    ids_NS: Tensor,
    positions_NS: Tensor,
    mask: Tensor | None,
    cache: DynamicCache | None = None,
    keep: int = 0,
) -> Tensor:
    """As `Logits` says, for a plain model.

    Only keys and values of positions that are not kept go through the last layer.
    """
    return linear(
        functional_hidden(model.model, ids_NS, positions_NS, mask, cache, keep), model.lm_head.weight
    )


def functional_hidden(
    body: Any,
    ids_NS: Tensor,
    positions_NS: Tensor,
    mask: Tensor | None,
    cache: DynamicCache | None = None,
    keep: int = 0,
) -> Tensor:
    """The same without the output layer: normed hidden states, shape (N, keep, H). `body`: the model's own
    decoder."""
    hidden = embedding(ids_NS, body.embed_tokens.weight, body.embed_tokens.padding_idx)
    turn = _rotation(body.rotary_emb, positions_NS)
    last = len(body.layers) - 1
    if mask is not None and mask.dim() == 2:
        mask = additive_mask(mask, ids_NS.shape[1])
    elif mask is None and ids_NS.shape[1] > 1 and cache is not None and cache.get_seq_length() > 0:
        total = cache.get_seq_length() + ids_NS.shape[1]
        mask = additive_mask(torch.ones(1, total, device=ids_NS.device), ids_NS.shape[1])
    for i, layer in enumerate(body.layers):
        hidden = _layer(layer, i, hidden, turn, mask, cache, keep if i == last else 0)
    return _norm(body.norm, hidden)


def _layer(
    layer: Any,
    index: int,
    hidden: Tensor,
    turn: tuple[Tensor, Tensor],
    mask: Tensor | None,
    cache: Any,
    keep: int,
) -> Tensor:
    attention, mlp = layer.self_attn, layer.mlp
    N, S, _ = hidden.shape
    shape = (N, S, -1, attention.head_dim)
    normed = _norm(layer.input_layernorm, hidden)
    keys = _rotate(linear(normed, attention.k_proj.weight).view(shape), turn).transpose(1, 2)
    values = linear(normed, attention.v_proj.weight).view(shape).transpose(1, 2)
    if cache is not None:
        keys, values = cache.update(keys, values, index)
    if 0 < keep < S:
        hidden, normed, S = hidden[:, -keep:], normed[:, -keep:], keep
        turn = (turn[0][:, -keep:], turn[1][:, -keep:])
        mask = _last_rows(mask, keep, keys)
    queries = _rotate(linear(normed, attention.q_proj.weight).view(N, S, -1, attention.head_dim), turn)
    mixed = scaled_dot_product_attention(
        queries.transpose(1, 2), keys, values, attn_mask=mask, is_causal=mask is None and S > 1
    )
    hidden = hidden + linear(mixed.transpose(1, 2).reshape(N, S, -1), attention.o_proj.weight)
    normed = _norm(layer.post_attention_layernorm, hidden)
    gated = silu(linear(normed, mlp.gate_proj.weight)) * linear(normed, mlp.up_proj.weight)
    return hidden + linear(gated, mlp.down_proj.weight)


def _last_rows(mask: Tensor | None, keep: int, keys: Tensor) -> Tensor | None:
    """The mask of the last `keep` positions; the very last one sees everything."""
    if mask is not None:
        return mask[:, :, -keep:]
    if keep == 1:
        return None
    return additive_mask(torch.ones(1, keys.shape[2], device=keys.device), keep)


def _rotation(rotary: Any, positions_NS: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and signed sines of each position's angles, shape (N, S, 1, head)."""
    angles = positions_NS.unsqueeze(-1).float() * rotary.inv_freq
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([cos, cos], -1).unsqueeze(2), torch.cat([-sin, sin], -1).unsqueeze(2)


def _rotate(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    if torch.is_grad_enabled():
        rotated: Tensor = _Rotate.apply(x, *turn)  # type: ignore[no-untyped-call]
        return rotated
    return _turned(x, *turn)


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding: the halves of each head as the two coordinates of a plane."""
    out = x * cos
    for mine, other, factor in zip(out.chunk(2, -1), reversed(x.chunk(2, -1)), sin.chunk(2, -1), strict=True):
        mine.addcmul_(other, factor)
    return out


class _Rotate(torch.autograd.Function):
    """The gradient of a rotation is the rotation back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _turned(x, cos, sin)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _turned(gradients[0], cos, -sin), None, None


def _norm(norm: Any, x: Tensor) -> Tensor:
    if torch.is_grad_enabled():
        normed: Tensor = _RmsNorm.apply(x, norm.weight, norm.variance_epsilon, sink_of(norm.weight))  # type: ignore[no-untyped-call]
        return normed
    scale = x.square().mean(-1, keepdim=True).add_(norm.variance_epsilon).rsqrt_()
    return torch.mul(x, scale).mul_(norm.weight)


class _RmsNorm(torch.autograd.Function):
    """RMSNorm with its gradient written out: a third of the operations that autograd records."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, epsilon: float, sink: Sink | None) -> Tensor:
        scale = x.square().mean(-1, keepdim=True).add_(epsilon).rsqrt_()
        unit = x * scale
        ctx.save_for_backward(unit, scale, weight)
        ctx.sink = sink
        return unit * weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        unit, scale, weight = ctx.saved_tensors
        product = gradients[0] * unit
        along = (product @ weight).unsqueeze(-1) / weight.numel()
        grad = (gradients[0] * weight).addcmul_(unit, along, value=-1).mul_(scale)
        if ctx.sink is not None:
            ctx.sink.sum(product)
            return grad, None, None, None
        return grad, product.flatten(0, -2).sum(0), None, None
