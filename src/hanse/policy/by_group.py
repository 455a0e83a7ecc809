"""Gradients of each group of rows, left in buffers by one backward pass over all of them.

A parameter that carries a `Sink` is the same for P groups that follow one another among the rows. What
autograd would sum over all rows, the sink keeps group by group; it costs P small products in place of one
large, and no new memory from step to step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


class Sink:
    """Where a backward pass leaves the gradients of one tensor of `shape`, one for each of P groups."""

    def __init__(self, like: Tensor) -> None:
        self._like, self._groups, self._empty = like, 0, True
        self._buffer = like.new_empty(0, *like.shape)

    def open(self, groups: int) -> None:
        """Begin anew, for so many groups."""
        if len(self._buffer) < groups:
            self._buffer = self._like.new_empty(groups, *self._like.shape)
        self._groups, self._empty = groups, True

    @property
    def rows(self) -> Tensor:
        """What has been left here, shape (P, n)."""
        return self._place().flatten(1)

    def product(self, grad: Tensor, x: Tensor) -> None:
        """Add grad^T x of each group; rows of both, in whatever leading dimensions, follow by group."""
        left = grad.reshape(self._groups, -1, grad.shape[-1]).transpose(1, 2)
        right = x.reshape(self._groups, -1, x.shape[-1])
        if self._empty:
            torch.bmm(left, right, out=self._buffer[: self._groups])
            self._empty = False
        else:
            self._place().baddbmm_(left, right)

    def sum(self, values: Tensor) -> None:
        """Add the sum over each group's rows."""
        self._place().add_(values.reshape(self._groups, -1, values.shape[-1]).sum(1))

    def scatter(self, ids: Tensor, grad: Tensor, padding: int | None) -> None:
        """Add rows of `grad` to those that `ids` name, in each group; none to the one at `padding`."""
        place = self._place()
        first = torch.arange(self._groups, device=ids.device).unsqueeze(1) * place.shape[1]
        places = (ids.reshape(self._groups, -1) + first).flatten()
        if padding is not None:
            grad = grad * (ids != padding).unsqueeze(-1)
        place.flatten(0, 1).index_add_(0, places, grad.reshape(-1, grad.shape[-1]))

    def _place(self) -> Tensor:
        place = self._buffer[: self._groups]
        if self._empty:
            place.zero_()
            self._empty = False
        return place


def sink_of(weight: Tensor) -> Sink | None:
    """The sink that a parameter carries now, if it does."""
    return getattr(weight, "sink", None)


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x W^T."""
    sink = sink_of(weight)
    if sink is None:
        return functional.linear(x, weight)
    product: Tensor = _Linear.apply(x, weight, sink)  # type: ignore[no-untyped-call]
    return product


def embedding(ids: Tensor, weight: Tensor, padding: int | None) -> Tensor:
    """Rows of `weight`; that at `padding` gets no gradient."""
    sink = sink_of(weight)
    if sink is None:
        return functional.embedding(ids, weight, padding)
    rows: Tensor = _Embedding.apply(ids, weight, padding, sink)  # type: ignore[no-untyped-call]
    return rows


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, sink: Sink) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.sink = sink
        return functional.linear(x, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        x, weight = ctx.saved_tensors
        ctx.sink.product(gradients[0], x)
        return gradients[0] @ weight, None, None


class _Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ids: Tensor, weight: Tensor, padding: int | None, sink: Sink) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.sink, ctx.padding = sink, padding
        return functional.embedding(ids, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, None, None]:
        (ids,) = ctx.saved_tensors
        ctx.sink.scatter(ids, gradients[0], ctx.padding)
        return None, None, None, None
