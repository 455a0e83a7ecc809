"""Matrices added to the frozen weights under LoRA adapters. The original weights stay as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from hanse.policy.parameters import sha256_of

_FACTOR = ".lora_A."


class BaseOffset:
    """Lets a model compute with base + offset: sums in float32, rounded once to the base's dtype.

    Each `set` starts from the originals, so that nothing drifts, whatever the base's dtype.
    """

    def __init__(self, model: nn.Module, factor_names: Sequence[str]) -> None:
        """`factor_names`: of the trained tensors, in the order of the offset's matrices."""
        names = [name.partition(_FACTOR)[0] for name in factor_names if _FACTOR in name]
        self._layers: list[Any] = [model.get_submodule(name) for name in names]
        self._weights = [layer.get_base_layer().weight for layer in self._layers]
        self._originals = [weight.data for weight in self._weights]

    def set(self, flat: Tensor) -> None:
        """One (out, in) matrix a module, float32, one after another."""
        parts = flat.split([original.numel() for original in self._originals])
        for layer, weight, original, part in zip(
            self._layers, self._weights, self._originals, parts, strict=True
        ):
            shape = original.T.shape if layer.fan_in_fan_out else original.shape
            matrix = part.view(shape).to(original.device)
            matrix = matrix.T if layer.fan_in_fan_out else matrix
            weight.data = (original.float() + matrix).to(original.dtype)

    def clear(self) -> None:
        """Back to the original weights."""
        for weight, original in zip(self._weights, self._originals, strict=True):
            weight.data = original

    def sha256(self) -> str:
        """Over the weights that the model computes with, in order."""
        return sha256_of([(str(i), weight) for i, weight in enumerate(self._weights)])

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Compute with the original weights inside the block."""
        lifted: list[torch.Tensor] = [weight.data for weight in self._weights]
        self.clear()
        try:
            yield
        finally:
            for weight, data in zip(self._weights, lifted, strict=True):
                weight.data = data
