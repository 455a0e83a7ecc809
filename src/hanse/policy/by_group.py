"""Weights that a model holds once for each group of rows: a backward pass then gives each group's gradient.

A weight of shape (P, …) is one weight, seen by P groups that follow one another among the rows; without
memory, as the copies are one view. What a product costs backwards stays the same: P small products in place
of one large.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x W^T, with W of shape (out, in) or (P, out, in)."""
    if weight.dim() == 2:
        return functional.linear(x, weight)
    product: Tensor = _Linear.apply(x, weight)  # type: ignore[no-untyped-call]
    return product


def embedding(ids: Tensor, weight: Tensor, padding: int | None) -> Tensor:
    """Rows of `weight`, of shape (V, H) or (P, V, H); that at `padding` gets no gradient."""
    if weight.dim() == 2:
        return functional.embedding(ids, weight, padding)
    rows: Tensor = _Embedding.apply(ids, weight, padding)  # type: ignore[no-untyped-call]
    return rows


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight_P: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight_P)
        return functional.linear(x, weight_P[0])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        x, weight_P = ctx.saved_tensors
        P, out, width = weight_P.shape
        grad = gradients[0]
        theirs = torch.bmm(grad.reshape(P, -1, out).transpose(1, 2), x.reshape(P, -1, width))
        return grad @ weight_P[0], theirs


class _Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ids: Tensor, weight_P: Tensor, padding: int | None) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.shape, ctx.padding = weight_P.shape, padding
        return functional.embedding(ids, weight_P[0])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, None]:
        (ids,) = ctx.saved_tensors
        P, V, H = ctx.shape
        grad = gradients[0]
        first = torch.arange(P, device=ids.device).unsqueeze(1) * V
        places = (ids.reshape(P, -1) + first).flatten()
        theirs = grad.new_zeros(P * V, H).index_add_(0, places, grad.reshape(-1, H)).view(P, V, H)
        if ctx.padding is not None:
            theirs[:, ctx.padding] = 0.0
        return None, theirs, None
