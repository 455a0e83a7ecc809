"""A key-value cache that is written in place: one allocation a batch instead of one copy a token."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer


class BufferedLayer(DynamicLayer):
    """Keys and values in buffers of fixed length; `keys` and `values` are views of what is filled."""

    keys: Tensor
    values: Tensor

    def __init__(self, keys: Tensor, values: Tensor, capacity: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._length = keys.shape[-2]
        self._buffers = [self._buffer(t, capacity) for t in (keys, values)]
        self.dtype, self.device = keys.dtype, keys.device
        self.is_initialized = True
        self._view()

    @staticmethod
    def _buffer(filled: Tensor, capacity: int) -> Tensor:
        rows, heads, length, width = filled.shape
        buffer = filled.new_empty(rows, heads, capacity, width)
        buffer[:, :, :length] = filled
        return buffer

    def _view(self) -> None:
        self.keys, self.values = (b[:, :, : self._length] for b in self._buffers)

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        end = self._length + key_states.shape[-2]
        for buffer, states in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, self._length : end] = states
        self._length = end
        self._view()
        return self.keys, self.values

    def keep_rows(self, index: Tensor) -> None:
        self._buffers = [b.index_select(0, index) for b in self._buffers]
        self._view()


def repeat_rows(tensor: Tensor, times: int) -> Tensor:
    """Each row `times` times in a row; differentiable, and its backward is a plain sum."""
    return tensor.unsqueeze(1).expand(-1, times, *tensor.shape[1:]).reshape(-1, *tensor.shape[1:])


def _refuse_empty(cache: DynamicCache) -> None:
    """A model that silently dropped its cache would see no prompt at all."""
    if not cache.layers or cache.get_seq_length() == 0:
        raise RuntimeError("the model returned an empty prompt cache (gradient checkpointing does this)")


def repeat_cache(cache: DynamicCache, times: int) -> DynamicCache:
    """Give each of a prompt's completions its own (differentiable) copy of the prompt's keys and values.

    Raises RuntimeError for an empty cache.
    """
    _refuse_empty(cache)
    for layer in _attention_layers(cache):
        layer.keys, layer.values = repeat_rows(layer.keys, times), repeat_rows(layer.values, times)
    return cache


def select_rows(cache: DynamicCache, index: Tensor) -> DynamicCache:
    """A cache of its own with the rows of `index`, which may repeat.

    Raises RuntimeError for an empty cache, as `repeat_cache` does.
    """
    _refuse_empty(cache)
    chosen = DynamicCache()
    for i, layer in enumerate(_attention_layers(cache)):
        chosen.update(layer.keys[index], layer.values[index], i)
    return chosen


def _attention_layers(cache: DynamicCache) -> list[Any]:
    """The cache's layers. Raises RuntimeError for architectures whose state is not keys and values."""
    if not all(isinstance(layer, DynamicLayer) for layer in cache.layers):
        raise RuntimeError("only models whose layers cache keys and values can share a prompt")
    return list(cache.layers)


def buffered_cache(cache: DynamicCache, times: int, new_tokens: int) -> DynamicCache:
    """The repeated prompt cache with room for `new_tokens` more."""
    capacity = cache.get_seq_length() + new_tokens
    repeated = repeat_cache(cache, times)
    repeated.layers = [BufferedLayer(x.keys, x.values, capacity) for x in _attention_layers(repeated)]
    return repeated


def keep_rows(cache: DynamicCache, index: Tensor) -> None:
    """Only the rows of `index` stay in the batch."""
    for layer in cache.layers:
        assert isinstance(layer, BufferedLayer)
        layer.keep_rows(index)


def unpack_rows(cache: DynamicCache, prompt: int, columns: int, index: Tensor, capacity: int) -> DynamicCache:
    """A row of its own for each completion of `index` (row * columns + column).

    A packed row holds its prompt's `prompt` positions, and then `columns` completions side by side.
    """
    row, column = index // columns, index % columns

    def own(packed: Tensor) -> Tensor:
        steps = packed[:, :, prompt:].unflatten(2, (-1, columns)).movedim(3, 1)
        return torch.cat([packed[row, :, :prompt], steps[row, column]], 2)

    layers = _attention_layers(cache)
    cache.layers = [BufferedLayer(own(x.keys), own(x.values), capacity) for x in layers]
    return cache


def pad_prompts(prompts_P: list[tuple[int, ...]], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Left-padded prompt ids (P, L) and the number of real tokens of each (P,)."""
    width = max(map(len, prompts_P))
    rows = [[pad_id] * (width - len(p)) + list(p) for p in prompts_P]
    lengths = torch.tensor([len(p) for p in prompts_P], device=device)
    return torch.tensor(rows, device=device), lengths
