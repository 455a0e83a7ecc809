"""What a receiver makes of its peers' answers: read, scored and weighed by itself, or left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from hanse.federation.public.messages import Pool
from hanse.federation.public.swap import Ids, Offer, wrong_places
from hanse.grpo.foreign import typical_weight
from hanse.grpo.step import Scoring
from hanse.policy.policy import Policy
from hanse.policy.readings import Readings, read_completions
from hanse.policy.rollout import Group, length_mask
from hanse.policy.sampler import Sampler
from hanse.recipe.public import PublicSpec


@dataclass(frozen=True)
class Believed:
    """Offers for each group that has room for some, by its number. `left_out`: by peer, how many of its
    answers are none or not correct; `scored`: how many were scored."""

    offers: dict[int, list[Offer]]
    left_out: Counter[int] = field(default_factory=Counter)
    scored: int = 0


def believe(
    pool: Pool, groups_P: Sequence[Group], spec: PublicSpec, sampler: Sampler, scorer: Scoring
) -> Believed:
    """The answers of the pool that groups have room for, as far as the receiver finds them correct."""
    policy, longest, left_out = sampler.policy, sampler.sampling.max_new_tokens, Counter[int]()
    read: list[tuple[int, int, Ids]] = []
    for p, (group, offered) in enumerate(zip(groups_P, pool.offers_P, strict=True)):
        assert group.rewards_G is not None
        for peer, ids in offered if wrong_places(group.rewards_G, spec) else ():
            if is_answer(ids, policy, longest):
                read.append((p, peer, ids))
            else:
                left_out[peer] += 1
    if not read:
        return Believed({}, left_out)
    problems, texts = [groups_P[p].problem for p, _, _ in read], policy.decode([ids for _, _, ids in read])
    rewards = scorer.score(problems, texts, [list(ids) for _, _, ids in read]).totals_N.tolist()
    offers: dict[int, list[Offer]] = {}
    for (p, peer, ids), reward in zip(read, rewards, strict=True):
        if reward >= spec.correct:
            stopped = ids[-1] in policy.eos_ids
            offers.setdefault(p, []).append(Offer(peer, ids, stopped, reward, torch.zeros(len(ids))))
        else:
            left_out[peer] += 1
    return Believed(_cut(offers, groups_P, spec), left_out, len(read))


def is_answer(ids: Ids, policy: Policy, longest: int) -> bool:
    """Whether a sampler of `longest` tokens can have written this: ids of the vocabulary, an end token at the
    end or, in an answer that was cut, none."""
    if not 1 <= len(ids) <= longest or max(ids) >= policy.vocabulary:
        return False
    ended = ids[-1] in policy.eos_ids
    return (ended or len(ids) == longest) and not any(token in policy.eos_ids for token in ids[:-1])


def weighed(
    offers: dict[int, list[Offer]], groups_P: Sequence[Group], spec: PublicSpec, sampler: Sampler
) -> dict[int, list[Offer]]:
    """The offers with their log-probs and weights under the receiver's policy as it is now."""
    if not offers:
        return {}
    most = max(map(len, offers.values()))
    longest = max(len(offer.ids) for own in offers.values() for offer in own)
    tokens = torch.full((len(offers), most, longest), sampler.policy.pad_id, dtype=torch.int64)
    lengths = torch.zeros(len(offers), most, dtype=torch.int64)
    for row, own in enumerate(offers.values()):
        for i, offer in enumerate(own):
            tokens[row, i, : len(offer.ids)], lengths[row, i] = torch.tensor(offer.ids), len(offer.ids)
    readings = _readings([groups_P[p].prompt_ids for p in offers], tokens, lengths, sampler)
    mask = length_mask(lengths.flatten(), longest)
    weights = typical_weight(readings, mask, spec.typical_z).view(len(offers), most).tolist()
    logp = readings.logp_NT.view_as(tokens)
    return {
        p: [
            replace(offer, logp_T=logp[row, i, : len(offer.ids)], weight=weights[row][i])
            for i, offer in enumerate(own)
        ]
        for row, (p, own) in enumerate(offers.items())
    }


def _cut(
    offers: dict[int, list[Offer]], groups_P: Sequence[Group], spec: PublicSpec
) -> dict[int, list[Offer]]:
    """As many as each group has room for."""
    rewards = {p: groups_P[p].rewards_G for p in offers}
    return {
        p: own[: len(wrong_places(r, spec))] for p, own in offers.items() if (r := rewards[p]) is not None
    }


def _readings(
    prompts: list[tuple[int, ...]], tokens_PMT: Tensor, lengths_PM: Tensor, sampler: Sampler
) -> Readings:
    policy, slots = sampler.policy, torch.zeros_like(lengths_PM)
    seeds = [0] * len(prompts)
    tokens = tokens_PMT.to(policy.device)
    found = read_completions(policy, prompts, tokens, seeds, slots, sampler.sampling, lengths_PG=lengths_PM)
    return Readings(*(getattr(found, name).cpu() for name in Readings.__dataclass_fields__))
