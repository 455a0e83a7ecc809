from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo.toys import make_policy
from hanse.policy.by_group import Sink, embedding, linear, sink_of
from hanse.policy.logprobs import completion_logprobs

PROMPTS = ["1+2=", "13+25=", "7="]


def _gradients(policy, prompts, tokens, weights) -> torch.Tensor:
    """Flat gradient of a weighted sum of log-probs."""
    policy.parameters.start_gradients()
    (completion_logprobs(policy, prompts, tokens, 1.0) * weights).sum().backward()
    assert policy.parameters.grad is not None
    return policy.parameters.grad.clone()


@pytest.mark.parametrize("T, shared", [(4, True), (40, True), (1, True), (4, False)])
def test_gradients_by_group_are_those_of_each_group_alone(T, shared):
    """Packed and cached forward, and that without a shared prompt; prompts of different lengths."""
    policy = make_policy()
    policy.shared_prompt = shared
    prompts = [policy.encode(text) for text in PROMPTS]
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, policy.vocabulary, (3, 4, T), generator=draw)
    weights = torch.randn(3, 4, T, generator=draw)
    before = policy.parameters.master.clone()
    policy.parameters.start_gradients()
    for _ in range(2):  # what is left from before does not count
        with policy.parameters.by_group(3) as sinks:
            (completion_logprobs(policy, prompts, tokens, 1.0) * weights).sum().backward()
            rows = torch.cat([sink.rows for sink in sinks], 1)
    assert torch.equal(policy.parameters.master, before)
    for i in range(3):
        alone = _gradients(policy, prompts[i : i + 1], tokens[i : i + 1], weights[i : i + 1])
        assert float((rows[i] - alone).norm() / alone.norm()) < 2e-6
    together = _gradients(policy, prompts, tokens, weights)
    assert float((rows.sum(0) - together).norm() / together.norm()) < 2e-6


def test_the_model_is_as_before_after_the_block_and_after_an_error_in_it():
    policy = make_policy()
    prompts = [policy.encode("1+2=")]
    tokens = torch.zeros(1, 2, 3, dtype=torch.long)
    before = completion_logprobs(policy, prompts, tokens, 1.0)
    with pytest.raises(ZeroDivisionError), policy.parameters.by_group(2):
        1 / 0  # noqa: B018
    assert torch.equal(completion_logprobs(policy, prompts, tokens, 1.0), before)
    assert all(sink_of(p) is None for p in policy.model.parameters())


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 100))
@settings(max_examples=25, deadline=None)
def test_pieces_have_the_gradients_of_torch_group_by_group(P, rows, seed):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(P * rows, 2, 3, generator=draw, requires_grad=True)
    ids = torch.randint(0, 5, (P * rows, 2), generator=draw)
    weight, table = torch.randn(4, 3, generator=draw), torch.randn(5, 3, generator=draw)
    out = torch.randn(P * rows, 2, 4, generator=draw)
    many, tables = torch.nn.Parameter(weight), torch.nn.Parameter(table)
    many.sink, tables.sink = Sink(weight), Sink(table)
    many.sink.open(P)
    tables.sink.open(P)
    loss = (linear(x + embedding(ids, tables, 0), many) * out).sum() + (linear(x, many) * out).sum()
    loss.backward()
    assert x.grad is not None and many.grad is None and tables.grad is None
    for p in range(P):
        part = slice(p * rows, (p + 1) * rows)
        w, t = weight.clone().requires_grad_(), table.clone().requires_grad_()
        alone = (linear(x[part] + embedding(ids[part], t, 0), w) * out[part]).sum()
        alone = alone + (linear(x[part], w) * out[part]).sum()
        theirs = torch.autograd.grad(alone, (x, w, t))
        torch.testing.assert_close(x.grad[part], theirs[0][part], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(many.sink.rows[p], theirs[1].flatten(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(tables.sink.rows[p], theirs[2].flatten(), rtol=1e-5, atol=1e-5)
