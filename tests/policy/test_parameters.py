from __future__ import annotations

import hashlib

import pytest
import torch
from torch import nn

from grpo.toys import make_policy
from hanse.policy.parameters import Parameters
from hanse.policy.policy import Policy


class Small(nn.Module):
    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.b = nn.Parameter(torch.arange(4.0).view(2, 2).to(dtype))
        self.a = nn.Parameter(torch.tensor([10.0, 20.0], dtype=dtype))
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)


def test_names_are_sorted_and_frozen_ones_left_out():
    parameters = Parameters(Small())
    assert parameters.names == ("a", "b")
    assert parameters.shapes == ((2,), (2, 2))
    assert parameters.master.tolist() == [10, 20, 0, 1, 2, 3]
    assert parameters.numel == 6


def test_the_model_computes_with_views_of_the_flat_buffer():
    model = Small()
    parameters = Parameters(model)
    parameters.load(torch.arange(6.0) + 100)
    assert model.a.tolist() == [100, 101]
    assert model.b.tolist() == [[102, 103], [104, 105]]
    views = parameters.views(parameters.master)
    views["b"][0, 1] = -1
    assert model.b[0, 1].item() == -1
    assert float(parameters.master[3]) == -1


def test_views_work_on_any_flat_vector():
    parameters = Parameters(Small())
    views = parameters.views(torch.zeros(6))
    assert {name: tuple(v.shape) for name, v in views.items()} == {"a": (2,), "b": (2, 2)}


def test_gradients_accumulate_into_the_flat_buffer_until_restarted():
    model = Small()
    parameters = Parameters(model)
    for times in (1, 2):
        if times == 1:
            parameters.start_gradients()
        (model.a.sum() * 2 + model.b.sum()).backward()
        parameters.collect_gradients()
        assert parameters.grad is not None
        assert parameters.grad.tolist() == [2.0 * times] * 2 + [1.0 * times] * 4
    parameters.start_gradients()
    assert not parameters.grad.any()
    parameters.drop_gradients()
    assert parameters.grad is None and model.a.grad is None


def test_masters_are_float32_and_the_model_computes_with_their_cast():
    model = Small(torch.bfloat16)
    parameters = Parameters(model)
    assert parameters.master.dtype == torch.float32
    assert parameters.cast.dtype == model.a.dtype == torch.bfloat16
    for _ in range(100):  # each change is far below the spacing of bfloat16 near 10 (1/16)
        parameters.master.add_(0.001)
        parameters.push()
    assert parameters.master[0] == pytest.approx(10.1, abs=1e-4)
    assert model.a[0].item() == 10.125  # the sum of 100 small changes does move the cast
    parameters.master.sub_(0.09)
    parameters.push()
    assert model.a[0].item() == 10.0


def test_low_precision_gradients_are_summed_in_float32():
    model = Small(torch.bfloat16)
    parameters = Parameters(model)
    parameters.start_gradients()
    for scale in (256.0, 1.0, 1.0):  # 256 + 1 is 256 in bfloat16
        (model.a.sum() * scale).backward()
        parameters.collect_gradients()
    assert parameters.grad is not None and parameters.grad.dtype == torch.float32
    assert parameters.grad[:2].tolist() == [258.0, 258.0]


def test_other_values_stand_in_only_inside_the_block():
    model = Small()
    parameters = Parameters(model)
    other = torch.full((6,), 5.0)
    with parameters.replaced_by(other):
        assert model.b.tolist() == [[5, 5], [5, 5]]
    assert model.b.tolist() == [[0, 1], [2, 3]]
    with pytest.raises(ZeroDivisionError), parameters.replaced_by(other):
        raise ZeroDivisionError
    assert model.a.tolist() == [10, 20]


def test_the_hash_covers_values_names_and_shapes():
    def digest(change: float = 0.0) -> str:
        model = Small()
        model.b.data[1, 1] += change
        return Parameters(model).sha256()

    assert digest() == digest() != digest(1e-6)
    by_hand = hashlib.sha256()
    for name, values, shape in (("a", [10.0, 20.0], (2,)), ("b", [0.0, 1.0, 2.0, 3.0], (2, 2))):
        by_hand.update(f"{name}{shape}torch.float32".encode())
        by_hand.update(torch.tensor(values).numpy().tobytes())
    assert digest() == by_hand.hexdigest()
    assert Parameters(Small(torch.bfloat16)).sha256() != digest()


def test_mixed_and_missing_trainables_are_refused():
    model = Small()
    model.a.data = model.a.data.half()
    with pytest.raises(ValueError, match="several dtypes"):
        Parameters(model)
    for p in model.parameters():
        p.requires_grad_(False)
    with pytest.raises(ValueError, match="no trainable parameter"):
        Parameters(model)


def test_tied_weights_appear_once(policy: Policy):
    assert "lm_head.weight" not in policy.parameters.names
    assert policy.model.lm_head.weight.data_ptr() == policy.model.model.embed_tokens.weight.data_ptr()
    policy.parameters.load(policy.parameters.master * 2)
    assert policy.model.lm_head.weight.data_ptr() == policy.model.model.embed_tokens.weight.data_ptr()


def test_the_reference_is_what_was_frozen():
    policy = make_policy()
    ids = torch.tensor([[3, 4, 5]])
    with torch.no_grad():
        before = policy.model(input_ids=ids).logits
        policy.freeze_reference()
        policy.parameters.load(policy.parameters.master + 0.1)
        with policy.reference():
            assert torch.equal(policy.model(input_ids=ids).logits, before)
        assert not torch.equal(policy.model(input_ids=ids).logits, before)
