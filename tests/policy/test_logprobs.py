from __future__ import annotations

import pytest
import torch

from grpo.toys import RAGGED, make_policy, relative
from hanse.policy import logprobs as module
from hanse.policy.logprobs import completion_logprobs, token_logprobs
from hanse.policy.policy import Policy


def draw_tokens(P: int, G: int, T: int) -> torch.Tensor:
    return torch.randint(2, 14, (P, G, T), generator=torch.Generator().manual_seed(3))


def logp_and_gradient(policy: Policy, prompts, tokens, temperature=1.0) -> tuple[torch.Tensor, torch.Tensor]:
    parameters = policy.parameters
    parameters.start_gradients()
    logp = completion_logprobs(policy, prompts, tokens, temperature)
    weights = torch.randn(logp.shape, generator=torch.Generator().manual_seed(4))
    (logp * weights).sum().backward()
    assert parameters.grad is not None
    return logp.detach(), parameters.grad.clone()


@pytest.mark.parametrize("prompts", [RAGGED, ("12+3=", "45+6="), ("7=", "1+2="), ("=", "1+2=")])
@pytest.mark.parametrize("T", [1, 5])
def test_the_shared_prompt_equals_the_plain_forward_with_gradients(prompts, T):
    policy = make_policy(sharpness=0.2)
    ids = [policy.encode(p) for p in prompts]
    tokens = draw_tokens(len(ids), 4, T)
    shared, shared_gradient = logp_and_gradient(policy, ids, tokens)
    policy.shared_prompt = False
    plain, plain_gradient = logp_and_gradient(policy, ids, tokens)
    torch.testing.assert_close(shared, plain, rtol=0, atol=5e-6)
    assert relative(shared_gradient, plain_gradient) < 1e-6
    parameters = policy.parameters
    for ours, theirs in zip(
        parameters.views(shared_gradient).values(), parameters.views(plain_gradient).values(), strict=True
    ):
        assert relative(ours, theirs, floor=1e-5) < 2e-6


@pytest.mark.parametrize("shared", [True, False])
def test_log_probs_equal_single_rows_through_the_model(policy: Policy, shared: bool):
    policy.shared_prompt = shared
    tokens = draw_tokens(4, 3, 5)
    prompts = [policy.encode(p) for p in RAGGED]
    ours = completion_logprobs(policy, prompts, tokens, 0.8).detach()
    for i, prompt in enumerate(prompts):
        for j in range(3):
            ids = torch.tensor([[*prompt, *tokens[i, j].tolist()]])
            with torch.no_grad():
                logits = policy.model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1]
            expected = (logits / 0.8).log_softmax(-1).gather(1, tokens[i, j].unsqueeze(1)).squeeze(1)
            torch.testing.assert_close(ours[i, j], expected, rtol=0, atol=5e-6)


def test_many_short_completions_and_few_long_ones_agree_with_the_plain_forward(policy: Policy):
    """Whatever layout the shared prompt takes for one size or the other."""
    for P, G, T in ((3, 8, 2), (2, 2, 40), (2, 9, 9)):
        ids = [policy.encode(p) for p in RAGGED[:P]]
        tokens = draw_tokens(P, G, T)
        policy.shared_prompt = True
        shared, gradient = logp_and_gradient(policy, ids, tokens)
        policy.shared_prompt = False
        plain, plain_gradient = logp_and_gradient(policy, ids, tokens)
        torch.testing.assert_close(shared, plain, rtol=0, atol=5e-6)
        assert relative(gradient, plain_gradient) < 2e-6


def test_what_stands_behind_a_completions_end_changes_nothing_before_it(policy: Policy):
    prompts = [policy.encode(p) for p in RAGGED]
    tokens = draw_tokens(4, 4, 6)
    other = tokens.clone()
    other[:, :, 3:] = 5
    one = completion_logprobs(policy, prompts, tokens, 1.0).detach()
    two = completion_logprobs(policy, prompts, other, 1.0).detach()
    assert torch.equal(one[:, :, :3], two[:, :, :3])
    assert not torch.equal(one[:, :, 3:], two[:, :, 3:])


@pytest.mark.parametrize("temperature", [0.7, 1.0])
@pytest.mark.parametrize("block", [1 << 22, 40])
def test_the_fused_log_prob_equals_autograds_log_softmax(monkeypatch, temperature, block):
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", block)
    noise = torch.Generator().manual_seed(0)
    logits = (3 * torch.randn(5, 7, 13, generator=noise)).requires_grad_()
    tokens = torch.randint(0, 13, (5, 7), generator=noise)
    weights = torch.randn(5, 7, generator=noise)
    ours = token_logprobs(logits, tokens, temperature)
    (ours * weights).sum().backward()
    mine = logits.grad
    exact = logits.detach().double().requires_grad_()
    theirs = (exact / temperature).log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    (theirs * weights).sum().backward()
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(mine.double(), exact.grad, rtol=1e-5, atol=3e-6)


def test_low_precision_logits_are_raised_to_float32(policy: Policy):
    logits = torch.randn(2, 3, 11, generator=torch.Generator().manual_seed(1)).bfloat16()
    tokens = torch.zeros(2, 3, dtype=torch.int64)
    ours = token_logprobs(logits, tokens, 1.0)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, logits.float().log_softmax(-1)[..., 0])


def test_without_a_cache_the_shared_prompt_is_refused_and_not_silently_lost():
    policy = make_policy()
    policy.model.gradient_checkpointing_enable()
    policy.model.train()
    prompts, tokens = [policy.encode("1+2=")], draw_tokens(1, 4, 3)
    with pytest.raises(RuntimeError, match="empty prompt cache"):
        completion_logprobs(policy, prompts, tokens, 1.0)
    policy.shared_prompt = False
    plain = completion_logprobs(policy, prompts, tokens, 1.0)
    policy.model.gradient_checkpointing_disable()
    policy.model.eval()
    torch.testing.assert_close(plain, completion_logprobs(policy, prompts, tokens, 1.0))
