"""The functional forward computes what the model's own forward computes, or stands aside."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from grpo.toys import RAGGED, make_policy, relative, sample_groups
from hanse.policy import functional_llama as module
from hanse.policy import logprobs, sampler
from hanse.policy.functional_llama import (
    additive_mask,
    decoding_mask,
    functional_logits,
    group_mask,
    is_plain,
    logits_of,
)
from hanse.policy.logprobs import completion_logprobs
from hanse.policy.policy import Policy

IDS = torch.randint(0, 14, (3, 9), generator=torch.Generator().manual_seed(0))
POSITIONS = torch.arange(9).expand(3, 9)
REAL = torch.tensor([[1] * 9, [0] * 2 + [1] * 7, [0] * 5 + [1] * 4])
TOLERANCE = 3e-6
"""For logits of size 10: a few units in the last place."""


def own_logits(model, ids, positions, mask=None, cache=None, keep=0):
    return model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        cache=cache,
        use_cache=cache is not None,
        logits_to_keep=keep,
    ).logits


def padded_positions() -> torch.Tensor:
    return (REAL.cumsum(1) - 1).clamp(min=0)


def with_own_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (module, logprobs, sampler):
        monkeypatch.setattr(place, "is_plain", lambda _: False)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("keep", [0, 1, 4])
def test_logits_equal_the_models_own(policy: Policy, keep: int, grad: bool):
    assert is_plain(policy.model)
    with torch.set_grad_enabled(grad):
        ours = functional_logits(policy.model, IDS, POSITIONS, None, None, keep)
        theirs = own_logits(policy.model, IDS, POSITIONS, keep=keep)
    assert ours.requires_grad is grad
    torch.testing.assert_close(ours, theirs, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("keep", [0, 1, 4])
def test_padding_on_the_left(policy: Policy, keep: int):
    ours = logits_of(policy.model)(IDS, padded_positions(), REAL, None, keep)
    theirs = own_logits(policy.model, IDS, padded_positions(), REAL, keep=keep)
    real = REAL.bool()[:, -keep:] if keep else REAL.bool()
    assert ours.isfinite().all()
    torch.testing.assert_close(ours[real], theirs[real], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("padded", [True, False])
def test_a_cache_goes_on_where_it_ended(policy: Policy, padded: bool):
    mask = REAL if padded else None
    positions = padded_positions() if padded else POSITIONS
    whole = logits_of(policy.model)(IDS, positions, mask)
    cache = DynamicCache()
    parts = []
    for start, end in ((0, 6), (6, 8), (8, 9)):
        seen = None if mask is None else mask[:, :end]
        parts.append(logits_of(policy.model)(IDS[:, start:end], positions[:, start:end], seen, cache))
    assert cache.get_seq_length() == 9
    real = REAL.bool() if padded else torch.ones_like(REAL).bool()
    torch.testing.assert_close(torch.cat(parts, 1)[real], whole[real], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("keep", [0, 3])
def test_gradients_equal_the_models_own(keep: int):
    policy = make_policy(sharpness=0.2)
    gradients = []
    for forward in (logits_of(policy.model), partial(own_logits, policy.model)):
        policy.parameters.start_gradients()
        logits = forward(IDS, padded_positions(), REAL, None, keep)
        weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(1))
        (logits * weights * REAL[:, -logits.shape[1] :].unsqueeze(-1)).sum().backward()
        gradients.append(policy.parameters.grad.clone())
    views = policy.parameters.views
    for (name, ours), theirs in zip(views(gradients[0]).items(), views(gradients[1]).values(), strict=True):
        assert relative(ours, theirs, floor=1e-5) < 2e-6, name


@pytest.mark.parametrize("shape", [(4, 3, 4), (4, 8, 1), (2, 2, 12), (4, 4, 9)])
def test_completions_packed_into_one_row_equal_separate_ones(monkeypatch, shape):
    policy = make_policy(sharpness=0.2)
    prompts = [policy.encode(prompt) for prompt in RAGGED[: shape[0]]]
    tokens = torch.randint(2, 14, shape, generator=torch.Generator().manual_seed(3))
    found = []
    for scores in (1 << 20, 0):
        monkeypatch.setattr(logprobs, "_PACKED_SCORES", scores)
        policy.parameters.start_gradients()
        logp = completion_logprobs(policy, prompts, tokens, 1.0)
        (logp * torch.linspace(-1, 1, logp.numel()).view_as(logp)).sum().backward()
        found.append((logp.detach(), policy.parameters.grad.clone()))
    torch.testing.assert_close(found[0][0], found[1][0], rtol=0, atol=TOLERANCE)
    assert relative(found[0][1], found[1][1]) < 2e-6


@pytest.mark.parametrize("packed", [0, 99])
def test_sampled_tokens_equal_those_of_the_models_own_forward(monkeypatch, policy: Policy, packed: int):
    monkeypatch.setattr(sampler, "_PACKED_TOKENS", packed)
    policy.eos_ids = (1, 6)
    ours = sample_groups(policy, T=20, G=5)
    with_own_forward(monkeypatch)
    theirs = sample_groups(policy, T=20, G=5)
    lengths = torch.cat([g.lengths_G for g in ours])
    assert lengths.unique().numel() > 4
    for g, other in zip(ours, theirs, strict=True):
        assert g.token_ids_G() == other.token_ids_G()
        torch.testing.assert_close(g.logp_GT, other.logp_GT, rtol=0, atol=1e-5)


def test_masks_by_hand():
    out = float("-inf")
    real = torch.tensor([[False, True, True]])
    assert additive_mask(real, 3)[0, 0].tolist() == [[0, out, out], [out, 0, out], [out, 0, 0]]
    assert additive_mask(real, 1)[0, 0].tolist() == [[out, 0, 0]]
    rows = group_mask(torch.tensor([[False, True]]), 2, 2)[0, 0] == 0
    assert rows.long().tolist() == [
        [1, 0, 0, 0, 0, 0],
        [0, 1, 0, 0, 0, 0],
        [0, 1, 1, 0, 0, 0],
        [0, 1, 1, 1, 0, 0],
        [0, 1, 0, 0, 1, 0],
        [0, 1, 0, 0, 1, 1],
    ]
    steps = decoding_mask(torch.tensor([[False, True]]), 2, 2)[0, 0] == 0
    assert steps.long().tolist() == [[0, 1, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1]]


def _lora(model):
    from peft import LoraConfig, inject_adapter_in_model

    inject_adapter_in_model(LoraConfig(r=2, target_modules=["q_proj"]), model)


def _hook(model):
    model.model.layers[1].mlp.register_forward_hook(lambda *_: None)


def _replaced_forward(model):
    layer = model.model.layers[0]
    layer.forward = partial(layer.forward)


@pytest.mark.parametrize(
    "change",
    [
        _lora,
        _hook,
        _replaced_forward,
        lambda model: model.to(torch.bfloat16),
        lambda model: model.set_attn_implementation("eager"),
        lambda model: model.gradient_checkpointing_enable(),
    ],
)
def test_changed_models_run_through_their_own_forward(policy: Policy, change):
    change(policy.model)
    assert not is_plain(policy.model)
    logits = logits_of(policy.model)(IDS, POSITIONS, None)
    assert torch.equal(logits, own_logits(policy.model, IDS, POSITIONS))


@pytest.mark.parametrize(
    "setting",
    [
        {"num_key_value_heads": 1},
        {"hidden_size": 1024},
        {"mlp_bias": True},
        {"attention_bias": True},
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}},
        {"hidden_act": "gelu"},
    ],
)
def test_other_llamas_run_through_their_own_forward(setting):
    sizes = {"vocab_size": 14, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    model = LlamaForCausalLM(LlamaConfig(**(sizes | {"num_attention_heads": 2} | setting)))
    assert not is_plain(model)
