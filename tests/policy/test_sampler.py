from __future__ import annotations

import pytest
import torch

from grpo.toys import RAGGED, make_policy, problems_of, sample_groups
from hanse.policy.logprobs import completion_logprobs
from hanse.policy.noise import gumbel_noise, stream_keys
from hanse.policy.policy import Policy
from hanse.policy.sampler import Sampler, Sampling, truncate

T = 12


def naive(policy: Policy, prompt: str, G: int, seed: int, sampling: Sampling):
    """One rollout at a time, the whole forward again for every token, the same noise."""
    rollouts = []
    for slot in range(G):
        key = stream_keys(torch.tensor([seed]), torch.tensor([slot]))
        ids, logps, kept = list(policy.encode(prompt)), [], []
        for t in range(sampling.max_new_tokens):
            with torch.no_grad():
                logits = policy.model(input_ids=torch.tensor([ids]), use_cache=False).logits[:, -1]
            logp = torch.log_softmax(logits / sampling.temperature, -1)
            allowed = truncate(logp, sampling.top_k, sampling.top_p)
            token = int((allowed + gumbel_noise(key, t, logp.shape[-1])).argmax())
            ids.append(token)
            logps.append(float(logp[0, token]))
            kept.append(float(allowed.logsumexp(-1)))
            if token in policy.eos_ids:
                break
        rollouts.append((ids[len(policy.encode(prompt)) :], logps, kept))
    return rollouts


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(T),
        Sampling(T, temperature=0.6),
        Sampling(T, temperature=1.3, top_k=4),
        Sampling(T, top_p=0.7),
        Sampling(T, top_k=6, top_p=0.8),
    ],
    ids=["plain", "cold", "top-k", "top-p", "both"],
)
def test_batched_sampling_equals_a_naive_loop(policy: Policy, sampling: Sampling):
    """Ragged prompts, a shared prompt cache and rows that leave the batch change no token."""
    policy.eos_ids = (1, 6)
    groups = Sampler(policy, sampling).sample(problems_of(), 6, [7, 8, 9, 10])
    lengths = torch.cat([g.lengths_G for g in groups])
    assert lengths.unique().numel() > 4  # rows leave at different times
    for g, prompt, seed in zip(groups, RAGGED, [7, 8, 9, 10], strict=True):
        for rollout, row in zip(g, naive(policy, prompt, 6, seed, sampling), strict=True):
            ids, logps, _ = row
            assert list(rollout.token_ids) == ids
            torch.testing.assert_close(rollout.logp_T, torch.tensor(logps), rtol=1e-5, atol=1e-5)
            assert rollout.finish == ("stop" if ids[-1] in policy.eos_ids else "length")
        if sampling.truncates:
            assert g.kept_logp_GT is not None
            expected = naive(policy, prompt, 1, seed, sampling)[0][2]
            torch.testing.assert_close(
                g.kept_logp_GT[0, : len(expected)], torch.tensor(expected), rtol=1e-5, atol=1e-5
            )
        else:
            assert g.kept_logp_GT is None


def test_behind_the_end_there_is_padding_and_no_log_prob(policy: Policy):
    policy.pad_id = 3
    groups = sample_groups(policy, T=T, G=8, top_k=5)
    assert any(bool((g.lengths_G < g.tokens_GT.shape[1]).any()) for g in groups)
    for g in groups:
        behind = ~g.mask_GT
        assert (g.tokens_GT[behind] == 3).all()
        assert (g.logp_GT[behind] == 0).all() and (g.kept_logp_GT[behind] == 0).all()
        assert (g.logp_GT[g.mask_GT] < 0).all()
        assert g.lengths_G.min() >= 1
        assert torch.equal(g.terminated_G, torch.tensor([ids[-1] == 1 for ids in g.token_ids_G()]))


def test_greedy_equals_transformers_generate(policy: Policy):
    groups = sample_groups(policy, G=2, T=T, greedy=True)
    for g, prompt in zip(groups, RAGGED, strict=True):
        ids = torch.tensor([policy.encode(prompt)])
        expected = policy.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=T,
            eos_token_id=[1],
            pad_token_id=0,
        )
        for row in g.token_ids_G():
            assert row == expected[0, ids.shape[1] :].tolist()


def test_ragged_prompts_together_equal_each_one_alone(policy: Policy):
    problems, seeds = problems_of(), [3, 4, 5, 6]
    sampler = Sampler(policy, Sampling(T))
    together = sampler.sample(problems, 4, seeds)
    for i, g in enumerate(together):
        (alone,) = sampler.sample(problems[i : i + 1], 4, seeds[i : i + 1])
        assert g.token_ids_G() == alone.token_ids_G()
        for rollout, other in zip(g, alone, strict=True):
            torch.testing.assert_close(rollout.logp_T, other.logp_T, rtol=0, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 8, 9, 512])
def test_rows_at_once_change_nothing(policy: Policy, rows: int):
    whole = sample_groups(policy, T=T, G=4)
    parts = sample_groups(policy, T=T, G=4, rows=rows)
    assert [g.token_ids_G() for g in parts] == [g.token_ids_G() for g in whole]


def test_a_smaller_group_is_the_beginning_of_a_larger_one(policy: Policy):
    large, small = sample_groups(policy, T=T, G=8), sample_groups(policy, T=T, G=3)
    for a, b in zip(large, small, strict=True):
        assert a.token_ids_G()[:3] == b.token_ids_G()


def test_seeds_and_slots_give_different_rollouts(policy: Policy):
    (g,) = Sampler(policy, Sampling(T)).sample(problems_of(("1+2=",)), 16, [1])
    (h,) = Sampler(policy, Sampling(T)).sample(problems_of(("1+2=",)), 16, [2])
    assert len(set(map(tuple, g.token_ids_G()))) > 8
    assert g.token_ids_G() != h.token_ids_G()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_sampler_log_probs_equal_the_learners(policy: Policy, temperature: float):
    groups = sample_groups(policy, T=T, G=4, temperature=temperature, top_k=7)
    width = max(g.tokens_GT.shape[1] for g in groups)
    tokens = torch.stack(
        [torch.nn.functional.pad(g.tokens_GT, (0, width - g.tokens_GT.shape[1])) for g in groups]
    )
    learner = completion_logprobs(policy, [g.prompt_ids for g in groups], tokens, temperature).detach()
    for g, row in zip(groups, learner, strict=True):
        mask = g.mask_GT
        assert (g.logp_GT - row[:, : mask.shape[1]])[mask].abs().max() <= 1e-5


def test_frequencies_follow_the_policy(policy: Policy):
    (g,) = Sampler(policy, Sampling(1, rows=4096)).sample(problems_of(("1+2=",)), 4096, [11])
    with torch.no_grad():
        logits = policy.model(input_ids=torch.tensor([policy.encode("1+2=")])).logits[0, -1]
    observed = torch.bincount(g.tokens_GT[:, 0], minlength=logits.numel()) / 4096
    assert (observed - logits.softmax(-1)).abs().max() < 0.025


def test_one_token_and_no_end_token(policy: Policy):
    policy.eos_ids = ()
    (g,) = sample_groups(policy, ("7=",), G=4, T=1)
    assert g.tokens_GT.shape == (4, 1)
    assert g.lengths_G.tolist() == [1] * 4
    assert not g.terminated_G.any()
    (g,) = sample_groups(policy, ("7=",), G=4, T=9)
    assert g.lengths_G.tolist() == [9] * 4


LOGP = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
OUT = -torch.inf


@pytest.mark.parametrize(
    ("top_k", "top_p", "kept"),
    [
        (0, 1.0, [0, 1, 2, 3]),
        (2, 1.0, [0, 1]),
        (4, 1.0, [0, 1, 2, 3]),
        (9, 1.0, [0, 1, 2, 3]),
        (0, 0.35, [0]),
        (0, 0.5, [0, 1]),
        (0, 0.75, [0, 1, 2]),
        (0, 0.01, [0]),
        # of the two kept by top-k, 0.4/0.7 = 0.571 comes first
        (2, 0.5, [0]),
        (2, 0.6, [0, 1]),
    ],
)
def test_truncate_by_hand(top_k: int, top_p: float, kept: list[int]):
    result = truncate(LOGP, top_k, top_p)
    expected = torch.full_like(LOGP, OUT)
    expected[0, kept] = LOGP[0, kept]
    assert torch.equal(result, expected)


def test_truncate_puts_the_nucleus_back_into_vocabulary_order():
    shuffled = LOGP[:, [2, 0, 3, 1]]
    assert (truncate(shuffled, 0, 0.65) > OUT).tolist() == [[False, True, False, True]]


def test_the_kept_mass_is_that_of_the_kept_tokens(policy: Policy):
    (g,) = sample_groups(policy, ("1+2=",), G=1, T=1, top_k=3)
    with torch.no_grad():
        logits = policy.model(input_ids=torch.tensor([policy.encode("1+2=")])).logits[0, -1]
    mass = logits.softmax(-1).topk(3).values.sum()
    assert float(g.kept_logp_GT[0, 0].exp()) == pytest.approx(float(mass), rel=1e-5)


def test_the_policy_is_left_in_evaluation_mode_without_gradients():
    policy = make_policy()
    policy.model.train()
    sample_groups(policy)
    assert not policy.model.training
    assert all(p.grad is None for p in policy.model.parameters())


@pytest.mark.parametrize("error", [RuntimeError, torch.OutOfMemoryError])
@pytest.mark.parametrize("fitting", [1, 2, 3])
def test_out_of_memory_halves_the_groups_decoded_at_once(policy: Policy, monkeypatch, error, fitting: int):
    expected = Sampler(policy, Sampling(T)).sample(problems_of(), 3, [7, 8, 9, 10])
    sampler, seen, whole = Sampler(policy, Sampling(T)), [], Sampler._sample_batch

    def limited(self, problems, G, seeds):
        seen.append(len(problems))
        if len(problems) > fitting:
            raise error("[enforce fail] can't allocate memory: you tried to allocate 1 bytes")
        return whole(self, problems, G, seeds)

    monkeypatch.setattr(Sampler, "_sample_batch", limited)
    for _ in range(2):  # the smaller batch stays
        for group, wanted in zip(sampler.sample(problems_of(), 3, [7, 8, 9, 10]), expected, strict=True):
            assert group.token_ids_G() == wanted.token_ids_G()
    assert sampler.halvings == len([n for n in seen if n > fitting]) == (2 if fitting == 1 else 1)


def test_out_of_memory_with_one_group_and_other_errors_are_raised(policy: Policy, monkeypatch):
    for problems, message in ((1, "can't allocate memory"), (4, "shapes differ")):

        def fail(self, *arguments, message=message):
            raise RuntimeError(message)

        monkeypatch.setattr(Sampler, "_sample_batch", fail)
        with pytest.raises(RuntimeError, match=message):
            Sampler(policy, Sampling(T)).sample(problems_of()[:problems], 3, [7, 8, 9, 10][:problems])
