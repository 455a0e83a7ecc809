"""Sampling: token in, token out. The prompt is read once a group, and finished rows leave the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers.cache_utils import DynamicCache

from hanse.policy.cache import buffered_cache, keep_rows, pad_prompts, unpack_rows
from hanse.policy.functional_llama import decoding_mask, is_plain, logits_of
from hanse.policy.memory import is_out_of_memory
from hanse.policy.noise import gumbel_noise, stream_keys
from hanse.policy.policy import Policy
from hanse.policy.rollout import Group
from hanse.tasks.problem import Problem

_COMPACT_SHARE = 1 / 8
_PACKED_TOKENS = 64
"""Completions of at most this length are decoded as one row a group where the model allows it: one attention
over all of them costs less than many small ones."""


@dataclass(frozen=True)
class Sampling:
    """How to sample. `rows` bounds the completions decoded at once; `greedy` takes the most likely token."""

    max_new_tokens: int
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    greedy: bool = False
    rows: int = 512

    @property
    def truncates(self) -> bool:
        return self.top_k > 0 or self.top_p < 1.0


def truncate(logp_NV: Tensor, top_k: int, top_p: float) -> Tensor:
    """Log-probs with everything outside top-k, then outside the top-p nucleus, at -inf. Not renormalised.

    A token stays in the nucleus when the mass before it (in falling order) is below `top_p`.
    """
    if top_k > 0 and top_k < logp_NV.shape[-1]:
        threshold = logp_NV.topk(top_k, dim=-1).values[..., -1:]
        logp_NV = logp_NV.masked_fill(logp_NV < threshold, -torch.inf)
    if top_p < 1.0:
        ordered, index = logp_NV.sort(dim=-1, descending=True)
        mass = ordered.exp() / ordered.exp().sum(-1, keepdim=True)
        cut = (mass.cumsum(-1) - mass) >= top_p
        logp_NV = logp_NV.masked_fill(torch.zeros_like(cut).scatter(-1, index, cut), -torch.inf)
    return logp_NV


class Sampler:
    """Samples groups of completions from a policy.

    >>> groups = Sampler(policy, Sampling(max_new_tokens=8)).sample(problems, 4, seeds)
    """

    def __init__(self, policy: Policy, sampling: Sampling) -> None:
        self.policy, self.sampling = policy, sampling
        self.halvings = 0

    @torch.no_grad()
    def sample(
        self,
        problems_P: Sequence[Problem],
        group_size: int,
        seeds_P: Sequence[int],
        slots_G: Sequence[int] | None = None,
    ) -> list[Group]:
        """`group_size` completions of each problem, in `slots_G` (None: 0 to group_size - 1).

        Each rollout draws from the stream (its problem's seed, its slot), whatever its batch-mates. Where
        memory runs out, fewer groups are decoded at once from then on; `halvings` counts that.
        """
        self.policy.model.eval()
        groups: list[Group] = []
        while len(groups) < len(problems_P):
            count = min(max(1, self.sampling.rows // group_size), len(problems_P) - len(groups))
            chunk = slice(len(groups), len(groups) + count)
            try:
                groups += self._sample_batch(problems_P[chunk], slots_G or range(group_size), seeds_P[chunk])
                continue
            except RuntimeError as error:
                if count == 1 or not is_out_of_memory(error):
                    raise
            self.sampling = replace(self.sampling, rows=count // 2 * group_size)
            self.halvings += 1
        return groups

    def _sample_batch(
        self, problems_P: Sequence[Problem], slots_G: Sequence[int], seeds_P: Sequence[int]
    ) -> list[Group]:
        policy, G = self.policy, len(slots_G)
        prompts = [policy.encode(problem.prompt) for problem in problems_P]
        seeds = torch.tensor(seeds_P, dtype=torch.int64, device=policy.device).repeat_interleave(G)
        slots = torch.tensor(list(slots_G), device=policy.device).repeat(len(prompts))
        decoding = _Decoding(self.sampling, policy, stream_keys(seeds, slots))
        decoding.run(prompts, G)
        return decoding.groups(problems_P, prompts, G)


class _Decoding:
    """The growing completions of one batch. Rows of the model's batch shrink as completions finish."""

    def __init__(self, sampling: Sampling, policy: Policy, keys_N: Tensor) -> None:
        N, T, device = keys_N.shape[0], sampling.max_new_tokens, keys_N.device
        self.sampling, self.policy, self.keys = sampling, policy, keys_N
        self.forward = logits_of(policy.model)
        self.tokens = torch.full((N, T), policy.pad_id, dtype=torch.int64, device=device)
        self.logp = torch.zeros((N, T), device=device)
        self.kept = torch.zeros((N, T), device=device) if sampling.truncates else None
        self.lengths = torch.zeros(N, dtype=torch.int64, device=device)
        self.terminated = torch.zeros(N, dtype=torch.bool, device=device)
        self.eos = torch.tensor(policy.eos_ids, device=device)

    def run(self, prompts: list[tuple[int, ...]], G: int) -> None:
        T = self.sampling.max_new_tokens
        ids, lengths = pad_prompts(prompts, self.policy.pad_id, self.keys.device)
        positions = torch.arange(ids.shape[1], device=ids.device) - (ids.shape[1] - lengths).unsqueeze(1)
        ragged = bool((lengths != ids.shape[1]).any())
        real = positions >= 0
        cache = DynamicCache()
        mask = real if ragged else None
        logits = self.forward(ids, positions.clamp(min=0), mask, cache, keep=1)
        logits = logits[:, -1].repeat_interleave(G, 0)
        mask = mask if mask is None else pad(mask, (0, T), value=True).repeat_interleave(G, 0)
        packed = G > 1 and T <= _PACKED_TOKENS and is_plain(self.policy.model)
        side_by_side = decoding_mask(real if ragged else real[:1], G, T) if packed else None
        cache = buffered_cache(cache, 1, G * T) if packed else buffered_cache(cache, G, T)
        self._decode(logits, cache, mask, lengths.repeat_interleave(G), side_by_side)

    def _decode(
        self, logits: Tensor, cache: DynamicCache, mask: Tensor | None, start: Tensor, packed: Tensor | None
    ) -> None:
        """Token by token. A row of the cache holds one completion, or with the mask `packed` all of a group.

        Packed rows leave the batch together, so they are unpacked once many completions have finished.
        """
        columns = 1 if packed is None else packed.shape[2]
        prompt, T = cache.get_seq_length(), self.sampling.max_new_tokens
        rows = torch.arange(self.keys.shape[0], device=self.keys.device).view(-1, columns)
        alive = torch.ones_like(rows, dtype=torch.bool)
        for t in range(T):
            chosen = self._choose(logits, rows.flatten(), alive.flatten(), t).view_as(rows)
            alive = alive & ~torch.isin(chosen, self.eos)
            remaining = int(alive.sum())
            if remaining == 0 or t + 1 == T:
                return
            if remaining <= alive.numel() * (1 - _COMPACT_SHARE * (1 if columns == 1 else 2)):
                index = alive.flatten().nonzero().squeeze(1)
                if columns > 1:
                    cache, columns = unpack_rows(cache, prompt, columns, index, prompt + T), 1
                else:
                    keep_rows(cache, index)
                rows, alive, chosen = (x.flatten()[index].unsqueeze(1) for x in (rows, alive, chosen))
            seen = packed if columns > 1 else None if mask is None else mask[rows.squeeze(1)]
            seen = None if seen is None else seen[..., : prompt + (t + 1) * columns]
            logits = self.forward(chosen, start[rows] + t, seen, cache).flatten(0, 1)

    def _choose(self, logits: Tensor, rows: Tensor, alive: Tensor, t: int) -> Tensor:
        """Draw token t of every row of the batch and record it for those still alive."""
        sampling = self.sampling
        logp = torch.log_softmax(logits.float() / sampling.temperature, dim=-1)
        kept = truncate(logp, sampling.top_k, sampling.top_p)
        noise = 0.0 if sampling.greedy else gumbel_noise(self.keys[rows], t, logp.shape[-1])
        chosen = (kept + noise).argmax(-1)
        where: Tensor | slice = rows
        token = chosen
        if not bool(alive.all()):
            where, token, logp, kept = rows[alive], chosen[alive], logp[alive], kept[alive]
        elif len(rows) == len(self.keys):
            where = slice(None)
        self.tokens[where, t] = token
        self.logp[where, t] = logp.gather(-1, token.unsqueeze(-1)).squeeze(-1)
        if self.kept is not None:
            self.kept[where, t] = kept.logsumexp(-1)
        self.lengths[where] += 1
        self.terminated[where] = torch.isin(token, self.eos)
        return chosen

    def groups(self, problems: Sequence[Problem], prompts: list[tuple[int, ...]], G: int) -> list[Group]:
        width = max(1, int(self.lengths.max()))

        def by_group(rows: Tensor) -> tuple[Tensor, ...]:
            return torch.unbind(rows.view(-1, G, *rows.shape[1:]))

        tokens, logp = by_group(self.tokens[:, :width]), by_group(self.logp[:, :width])
        kept = None if self.kept is None else by_group(self.kept[:, :width])
        lengths, terminated = by_group(self.lengths), by_group(self.terminated)
        return [
            Group(
                problem=problem,
                prompt_ids=prompt,
                tokens_GT=tokens[i],
                lengths_G=lengths[i],
                terminated_G=terminated[i],
                logp_GT=logp[i],
                kept_logp_GT=None if kept is None else kept[i],
            )
            for i, (problem, prompt) in enumerate(zip(problems, prompts, strict=True))
        ]
