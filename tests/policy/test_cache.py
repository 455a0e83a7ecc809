from __future__ import annotations

import pytest
import torch
from transformers.cache_utils import DynamicCache

from hanse.policy.cache import (
    BufferedLayer,
    buffered_cache,
    keep_rows,
    pad_prompts,
    repeat_cache,
    repeat_rows,
    unpack_rows,
)


def filled_cache(rows: int = 2, length: int = 3) -> DynamicCache:
    cache = DynamicCache()
    for layer in range(2):
        states = torch.arange(rows * 2 * length * 4.0).view(rows, 2, length, 4) + 100 * layer
        cache.update(states, states + 0.5, layer)
    return cache


def test_the_buffered_cache_equals_the_dynamic_one_token_by_token():
    plain, buffered = repeat_cache(filled_cache(), 3), buffered_cache(filled_cache(), 3, 4)
    for step in range(4):
        for layer in range(2):
            new = torch.full((6, 2, 1, 4), float(step))
            keys, values = buffered.update(new, new + 1, layer)
            expected_keys, expected_values = plain.update(new, new + 1, layer)
            assert torch.equal(keys, expected_keys) and torch.equal(values, expected_values)
        assert buffered.get_seq_length() == plain.get_seq_length() == 4 + step


def test_nothing_is_allocated_while_decoding():
    cache = buffered_cache(filled_cache(), 2, 2)
    where = cache.layers[0].keys.data_ptr()
    cache.update(torch.zeros(4, 2, 1, 4), torch.zeros(4, 2, 1, 4), 0)
    assert cache.layers[0].keys.data_ptr() == where


def test_kept_rows_go_on_with_their_own_past():
    cache = buffered_cache(filled_cache(), 2, 3)
    before = cache.layers[1].values.clone()
    keep_rows(cache, torch.tensor([3, 0]))
    assert torch.equal(cache.layers[1].values, before[[3, 0]])
    keys, _ = cache.update(torch.ones(2, 2, 1, 4), torch.ones(2, 2, 1, 4), 1)
    assert keys.shape == (2, 2, 4, 4)
    assert (keys[:, :, 3] == 1).all()


def test_packed_rows_are_unpacked_with_their_prompt_and_their_own_past():
    cache = buffered_cache(filled_cache(rows=2, length=3), 1, 4)
    steps = torch.arange(2 * 2 * 4 * 4.0).view(2, 2, 4, 4) + 1000  # two steps of two completions
    for layer in range(2):
        cache.update(steps, -steps, layer)
    prompt_keys = cache.layers[1].keys[:, :, :3].clone()
    unpacked = unpack_rows(cache, 3, 2, torch.tensor([1, 2]), 9)
    keys = unpacked.layers[1].keys
    assert keys.shape == (2, 2, 5, 4)
    assert torch.equal(keys[:, :, :3], prompt_keys)
    assert torch.equal(keys[0, :, 3:], steps[0][:, [1, 3]])  # second completion of the first prompt
    assert torch.equal(unpacked.layers[0].values[1, :, 3:], -steps[1][:, [0, 2]])
    longer, _ = unpacked.update(torch.ones(2, 2, 1, 4), torch.ones(2, 2, 1, 4), 1)
    assert longer.shape[2] == unpacked.get_seq_length(1) == 6


def test_repeated_rows_lie_together_and_their_gradients_add_up():
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    repeated = repeat_rows(rows, 3)
    assert repeated.tolist() == [[1, 2]] * 3 + [[3, 4]] * 3
    (repeated * torch.arange(6.0).unsqueeze(1)).sum().backward()
    assert rows.grad is not None
    assert rows.grad.tolist() == [[3, 3], [12, 12]]


def test_an_empty_cache_is_refused():
    with pytest.raises(RuntimeError, match="gradient checkpointing does this"):
        repeat_cache(DynamicCache(), 2)


def test_layers_without_keys_and_values_are_refused():
    cache = filled_cache()
    cache.layers[0] = object()
    cache.get_seq_length = lambda *_: 3
    with pytest.raises(RuntimeError, match="keys and values"):
        repeat_cache(cache, 2)


def test_prompts_are_padded_on_the_left():
    ids, lengths = pad_prompts([(5, 6, 7), (8,)], 9, torch.device("cpu"))
    assert ids.tolist() == [[5, 6, 7], [9, 9, 8]]
    assert lengths.tolist() == [3, 1]


def test_a_buffered_layer_says_how_long_it_is():
    layer = BufferedLayer(torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 2, 4), 5)
    assert layer.get_seq_length() == 2
