"""Readings against direct computation, and the sampler's own output under every check."""

from __future__ import annotations

from dataclasses import fields

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from grpo.toys import RAGGED, make_policy, problems_of
from hanse.policy import readings as module
from hanse.policy.noise import gumbel_noise, stream_keys
from hanse.policy.policy import Policy
from hanse.policy.readings import EDGE, Readings, read_completions
from hanse.policy.sampler import Sampler, Sampling, truncate

T = 12
SAMPLINGS = [
    Sampling(T),
    Sampling(T, temperature=0.7),
    Sampling(T, top_k=5),
    Sampling(T, top_p=0.9),
    Sampling(T, top_k=6, top_p=0.8, temperature=1.3),
    Sampling(T, top_k=1),
    Sampling(T, greedy=True),
]
NAMES = ["plain", "cold", "top-k", "top-p", "both", "top-1", "greedy"]


class Sampled:
    """Groups of one policy as rectangles, with what is needed to read them."""

    def __init__(self, policy: Policy, sampling: Sampling, seed: int = 0, G: int = 6) -> None:
        self.policy, self.sampling, self.G = policy, sampling, G
        self.seeds = [100 * seed + i for i in range(len(RAGGED))]
        groups = Sampler(policy, sampling).sample(problems_of(), G, self.seeds)
        self.prompts = [g.prompt_ids for g in groups]
        self.tokens = torch.stack([pad(g.tokens_GT, (0, T - g.tokens_GT.shape[1])) for g in groups])
        self.lengths = torch.stack([g.lengths_G for g in groups])
        self.logp = torch.cat([pad(g.logp_GT, (0, T - g.logp_GT.shape[1])) for g in groups])
        self.slots = torch.arange(G).expand(len(RAGGED), G)
        self.mask = (torch.arange(T) < self.lengths.unsqueeze(-1)).view(-1, T)

    def read(self, tokens: Tensor | None = None, policy: Policy | None = None, **options) -> Readings:
        return read_completions(
            policy or self.policy,
            self.prompts,
            self.tokens if tokens is None else tokens,
            self.seeds,
            self.slots,
            options.pop("sampling", self.sampling),
            options.pop("top_k", None),
            **options,
        )


def same(a: Readings, b: Readings, mask: Tensor, atol: float = 0.0) -> None:
    for f in fields(Readings):
        torch.testing.assert_close(getattr(a, f.name)[mask], getattr(b, f.name)[mask], rtol=0, atol=atol)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=NAMES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_samplers_own_output_passes_everywhere(sampling: Sampling, seed: int):
    """Decoding with a cache in a batch of ragged rows, reading in one forward: the bits differ."""
    made = Sampled(make_policy(seed), sampling, seed)
    found = made.read()
    assert found.replay_NT[made.mask].max() <= 1e-4
    assert found.margin_NT[made.mask].min() >= -1e-4
    assert (found.logp_NT - made.logp)[made.mask].abs().max() <= 1e-5
    assert (found.gap_NT <= 0).all() and (found.kept_NT <= 1e-6).all()
    if sampling.top_k != 1 and not sampling.greedy:
        assert made.lengths.float().std() > 1 and (made.lengths == T).any()  # some end, some are cut


@pytest.mark.parametrize("sampling", SAMPLINGS[:5], ids=NAMES[:5])
def test_a_changed_token_is_seen_wherever_it_stands(sampling: Sampling):
    made = Sampled(make_policy(4), sampling)
    for t in (0, 1, 5):
        tokens = made.tokens.clone()
        tokens[..., t] = 2 + (tokens[..., t] - 1) % 12  # another token, never an end
        changed = made.mask[:, t]
        found = made.read(tokens)
        assert (found.replay_NT[changed, t] > EDGE).all()
        same(found.select(torch.arange(24)), made.read(), (torch.arange(T) < t) & made.mask, 1e-6)


def test_another_slot_or_seed_is_another_stream(policy: Policy):
    made = Sampled(policy, Sampling(T))
    made.slots = made.slots.roll(1, 1)
    assert (made.read().replay_NT.masked_fill(~made.mask, 0).amax(1) > EDGE).float().mean() > 0.9
    made.slots, made.seeds = made.slots.roll(-1, 1), [s + 1 for s in made.seeds]
    assert (made.read().replay_NT.masked_fill(~made.mask, 0).amax(1) > EDGE).float().mean() > 0.9


def test_what_is_behind_the_end_does_not_matter(policy: Policy):
    made = Sampled(policy, Sampling(T, top_k=5))
    other = torch.where(made.mask.view_as(made.tokens), made.tokens, torch.tensor(7))
    assert not torch.equal(other, made.tokens)
    same(made.read(other), made.read(), made.mask)
    trimmed = made.read(lengths_PG=made.lengths)
    same(trimmed, made.read(), made.mask, 1e-6)
    assert (trimmed.logp_NT[~made.mask] == 0).all()


@pytest.mark.parametrize("at_once", [1, 14 * T, 14 * T * 4, 14 * T * 13])
def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch, policy: Policy, at_once: int):
    """Parts of a group, single groups, several groups."""
    made = Sampled(policy, Sampling(T, top_k=5, top_p=0.9))
    whole = made.read()
    monkeypatch.setattr(module, "_LOGITS_AT_ONCE", at_once)
    monkeypatch.setattr(module, "_ENTRIES_AT_ONCE", 14 * 3)
    same(made.read(), whole, made.mask, 2e-5)


@pytest.mark.parametrize("shared", [True, False])
def test_a_group_of_one_and_a_plain_forward(policy: Policy, shared: bool):
    policy.shared_prompt = shared
    for G in (1, 6):
        made = Sampled(policy, Sampling(T, top_k=5), G=G)
        found = made.read()
        assert found.replay_NT[made.mask].max() <= 1e-4
        assert (found.logp_NT - made.logp)[made.mask].abs().max() <= 1e-5


def test_a_model_with_its_own_forward(policy: Policy):
    """A hook makes the model one that the functional forward refuses."""
    policy.model.lm_head.register_forward_hook(lambda *_: None)
    made = Sampled(policy, Sampling(T, top_k=5))
    assert made.read().replay_NT[made.mask].max() <= 1e-4


def test_completions_of_one_token_and_an_empty_one(policy: Policy):
    made = Sampled(policy, Sampling(T))
    made.tokens, lengths = made.tokens[..., :1], torch.ones_like(made.lengths)
    lengths[0, 0] = 0
    found = made.read(lengths_PG=lengths)
    assert found.logp_NT.shape == (24, 1)
    assert found.logp_NT[0] == 0 and (found.logp_NT[1:] < 0).all()


def naive(made: Sampled, row: int, t: int) -> tuple[Tensor, Tensor]:
    """Log-probs and noise of one place, by the model's own forward."""
    p, slot = divmod(row, made.G)
    ids = [*made.prompts[p], *made.tokens[p, slot, :t].tolist()]
    with torch.no_grad():
        logits = made.policy.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
    key = stream_keys(torch.tensor([made.seeds[p]]), torch.tensor([slot]))
    return torch.log_softmax(logits / made.sampling.temperature, -1), gumbel_noise(key, t, len(logits))[0]


@pytest.mark.parametrize("sampling", SAMPLINGS[:5], ids=NAMES[:5])
def test_readings_by_definition(sampling: Sampling):
    made = Sampled(make_policy(7), sampling)
    found = made.read(top_k=3)
    for row, t in ((0, 0), (7, 1), (13, 4), (23, 3)):
        if not made.mask[row, t]:
            continue
        logp, noise = naive(made, row, t)
        token = int(made.tokens.view(-1, T)[row, t])
        p = logp.exp().double()
        entropy = float(-(p * logp).sum())
        kept = truncate(logp.unsqueeze(0), sampling.top_k, sampling.top_p)[0]
        expected = {
            "logp": float(logp[token]),
            "kept": float(kept.logsumexp(-1)),
            "entropy": entropy,
            "variance": float((p * (-logp - entropy) ** 2).sum()),
            "margin": float(logp[token] - logp.topk(3).values[-1]),
            "gap": float(logp[token] - logp.max()),
            "replay": float((kept + noise).max() - (logp + noise)[token]),
        }
        for name, value in expected.items():
            assert float(getattr(found, f"{name}_NT")[row, t]) == pytest.approx(value, abs=2e-5), name


def flat_policy(logits: list[float]) -> Policy:
    """A policy whose logits are the same everywhere."""
    policy = make_policy()
    values = torch.tensor(logits)
    policy.model.lm_head.register_forward_hook(lambda _m, _i, out: values.expand(*out.shape))
    return policy


def read_flat(policy: Policy, sampling: Sampling, token: int) -> Readings:
    tokens = torch.full((1, 1, 1), token)
    return read_completions(policy, [(2, 3)], tokens, [6], torch.zeros(1, 1, dtype=torch.int64), sampling)


@pytest.mark.parametrize("off", [5e-4, -5e-4])
def test_the_cut_leaves_room_for_rounding_on_both_sides(off: float):
    """Two tokens almost tie for the second place: neither can be held against the other."""
    logits = [0.0] * 14
    logits[3], logits[4], logits[5] = 5.0, 1.0, 1.0 + off
    policy = flat_policy(logits)
    for token in (4, 5):
        found = read_flat(policy, Sampling(1, top_k=2), token)
        key = stream_keys(torch.tensor([6]), torch.tensor([0]))
        noise = gumbel_noise(key, 0, 14)[0]
        against_likeliest = float(5.0 + noise[3] - logits[token] - noise[token])
        assert float(found.replay_NT) == pytest.approx(max(against_likeliest, 0, off), abs=1.5e-3)


def test_what_is_cut_off_never_wins_by_luck():
    """Below the cut a token is rejected however the noise favours it."""
    logits = [0.0] * 14
    logits[3], logits[4] = 0.2, 0.1
    policy = flat_policy(logits)
    key = stream_keys(torch.tensor([6]), torch.tensor([0]))
    lucky = int((torch.tensor(logits) + gumbel_noise(key, 0, 14)[0]).argmax())
    assert lucky not in (3, 4)
    assert float(read_flat(policy, Sampling(1), lucky).replay_NT) == 0
    assert float(read_flat(policy, Sampling(1, top_k=2), lucky).replay_NT) >= 0.1 - 1e-6
    assert float(read_flat(policy, Sampling(1, top_p=0.1), lucky).replay_NT) >= 0.1 - 1e-6


def test_the_nucleus_leaves_room_for_rounding():
    """The mass before token 4 is the limit, to within rounding: it may pass, and need not."""
    logits = torch.full((14,), -30.0)
    logits[3], logits[4], logits[5] = 0.5, 0.3, 0.2
    logits[3:6] = logits[3:6].log()
    policy = flat_policy(logits.tolist())
    noise = gumbel_noise(stream_keys(torch.tensor([6]), torch.tensor([0])), 0, 14)[0]
    for top_p in (0.5 - 1e-5, 0.5 + 1e-5):
        first = read_flat(policy, Sampling(1, top_p=top_p), 3)
        second = read_flat(policy, Sampling(1, top_p=top_p), 4)
        third = read_flat(policy, Sampling(1, top_p=top_p), 5)
        assert float(first.replay_NT) == 0
        assert float(second.replay_NT) == pytest.approx(
            max(0.0, float(logits[3] - logits[4] + noise[3] - noise[4])), abs=1e-5
        )
        assert float(third.replay_NT) >= float(logits[4] - logits[5]) - 1e-5


def bfloat16(policy: Policy) -> Policy:
    policy.model.to(torch.bfloat16)
    return policy


@pytest.mark.parametrize("sampling", SAMPLINGS[:5], ids=NAMES[:5])
def test_bfloat16_needs_a_wider_edge(sampling: Sampling):
    tolerance = 0.5
    made = Sampled(bfloat16(make_policy(2)), sampling)
    found = made.read(edge=tolerance)
    assert found.logp_NT.dtype == torch.float32
    assert found.replay_NT[made.mask].max() <= tolerance
    tokens = made.tokens.clone()
    tokens[..., 2] = 2 + (tokens[..., 2] - 1) % 12
    caught = made.read(tokens, edge=tolerance).replay_NT[made.mask[:, 2], 2] > tolerance
    assert caught.float().mean() > 0.5


def test_selection_of_rows(policy: Policy):
    whole = Sampled(policy, Sampling(T)).read()
    some = whole.select([3, 0])
    assert torch.equal(some.logp_NT, whole.logp_NT[[3, 0]]) and torch.equal(
        some.replay_NT[1], whole.replay_NT[0]
    )
