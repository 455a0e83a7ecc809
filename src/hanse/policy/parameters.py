"""One view of what trains, for full and LoRA alike: tensors by name, in name order, in flat buffers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from hanse.policy.by_group import Sink


class Parameters:
    """The trainable tensors of a model behind flat buffers.

    `master` is float32 and belongs to the learner; `cast` is what the model computes with. They are the
    same memory when the model is float32. Swapping a client in is one copy into `master`.
    """

    def __init__(self, model: nn.Module) -> None:
        named = sorted((name, p) for name, p in model.named_parameters() if p.requires_grad)
        if not named:
            raise ValueError("the model has no trainable parameter")
        dtypes = {p.dtype for _, p in named}
        if len(dtypes) != 1:
            raise ValueError(f"trainable parameters have several dtypes: {sorted(map(str, dtypes))}")
        self.names = tuple(name for name, _ in named)
        self.shapes = tuple(tuple(p.shape) for _, p in named)
        self.dtype: torch.dtype = dtypes.pop()
        self._parameters = [p for _, p in named]
        self.cast = torch.cat([p.detach().reshape(-1) for p in self._parameters])
        self.master = self.cast if self.dtype == torch.float32 else self.cast.float()
        self._cast_grad: Tensor | None = None
        self.grad: Tensor | None = None
        self._sinks: list[Sink] = []
        self._point_to(self.cast)

    @property
    def numel(self) -> int:
        return self.master.numel()

    def load(self, master: Tensor) -> None:
        """Take over a flat float32 vector of values, shape (numel,)."""
        self.master.copy_(master)
        self.push()

    def push(self) -> None:
        """Let the model compute with the current master values."""
        if self.cast is not self.master:
            self.cast.copy_(self.master)

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """The named tensors inside a flat vector, without copying."""
        parts = flat.split([math.prod(shape) for shape in self.shapes])
        return {n: part.view(shape) for n, part, shape in zip(self.names, parts, self.shapes, strict=True)}

    def start_gradients(self) -> None:
        """Zero the gradients; from here `backward` accumulates into the flat buffer."""
        if self.grad is None:
            self._cast_grad = torch.zeros_like(self.cast)
            self.grad = self._cast_grad if self.cast is self.master else torch.zeros_like(self.master)
        assert self._cast_grad is not None
        self.grad.zero_()
        self._cast_grad.zero_()
        for p, view in zip(self._parameters, self.views(self._cast_grad).values(), strict=True):
            p.grad = view

    def collect_gradients(self) -> None:
        """Add a low-precision micro-batch gradient to the float32 sum; call after each backward."""
        assert self.grad is not None and self._cast_grad is not None
        if self.grad is not self._cast_grad:
            self.grad.add_(self._cast_grad)
            self._cast_grad.zero_()

    def drop_gradients(self) -> None:
        """Free the gradient buffers."""
        self._sinks = []
        self.grad = self._cast_grad = None
        for p in self._parameters:
            p.grad = None

    @contextmanager
    def replaced_by(self, values: Tensor) -> Iterator[None]:
        """Compute with other values (a frozen reference, say) inside the block."""
        self._point_to(values)
        try:
            yield
        finally:
            self._point_to(self.cast)

    @contextmanager
    def by_group(self, groups: int) -> Iterator[list[Sink]]:
        """Inside the block, gradients go into sinks, group by group: one of each tensor in name order.

        Only the functional forward of a plain model (`policy.functional_llama`) knows sinks.
        """
        if not self._sinks:
            self._sinks = [Sink(p.detach()) for p in self._parameters]
        for p, sink in zip(self._parameters, self._sinks, strict=True):
            sink.open(groups)
            p.sink = sink  # type: ignore[attr-defined]
        try:
            yield self._sinks
        finally:
            for p in self._parameters:
                del p.sink  # type: ignore[attr-defined]

    def sha256(self) -> str:
        """Over names, shapes, dtype and the values that the model computes with, in name order."""
        return sha256_of(self.views(self.cast).items())

    def _point_to(self, flat: Tensor) -> None:
        for p, view in zip(self._parameters, self.views(flat).values(), strict=True):
            p.data = view


def sha256_of(named: Iterable[tuple[str, Tensor]]) -> str:
    """Over names, shapes, dtypes and values, in the order given."""
    digest = hashlib.sha256()
    for name, tensor in named:
        digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()
