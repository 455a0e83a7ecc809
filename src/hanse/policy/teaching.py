"""Teaching: supervised steps on texts that a task brings along, until enough of what is sampled is right."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from hanse.policy.logprobs import completion_logprobs
from hanse.policy.policy import Policy
from hanse.policy.sampler import Sampler, Sampling
from hanse.policy.warmup import descend
from hanse.randomness import derive_seed, generator
from hanse.tasks.lessons import Lessons, Row

_CHECK_EVERY = 20
_RAMP = 50
_CHUNKS = 2
"""Parts of a batch, short completions apart from long ones: less padding is computed."""


def teach(policy: Policy, lessons: Lessons, seed: int) -> int:
    """Train until `until_accuracy` is reached, or for `max_steps`. Returns the number of steps done."""
    spec, parameters = lessons.spec, policy.parameters
    optimiser = torch.optim.AdamW([parameters.master], lr=spec.lr, betas=(0.9, 0.99), weight_decay=0.0)
    for step in range(spec.max_steps):
        if step and step % _CHECK_EVERY == 0 and taught(policy, lessons, seed) >= spec.until_accuracy:
            return step
        optimiser.param_groups[0]["lr"] = spec.lr * min(1.0, (step + 1) / _RAMP)
        draw = generator(seed, "lessons", step)
        rows = [lessons.row(draw) for _ in range(spec.batch_size)]
        descend(parameters, optimiser, partial(_loss, policy, rows))
    return spec.max_steps


def taught(policy: Policy, lessons: Lessons, seed: int) -> float:
    """The share of sampled completions of the probes that are right."""
    sampler = Sampler(policy, Sampling(max_new_tokens=lessons.longest))
    seeds = [derive_seed(seed, "lessons", problem.id) for problem in lessons.probes]
    groups = sampler.sample(lessons.probes, 1, seeds)
    texts = policy.decode([row for group in groups for row in group.token_ids_G()])
    return float(np.mean([lessons.right(p, text) for p, text in zip(lessons.probes, texts, strict=True)]))


def _loss(policy: Policy, rows: Sequence[Row]) -> Tensor:
    """Mean negative log-prob of a token of the completions, end included."""
    encoded = [(policy.encode(p), (*policy.encode(text), policy.eos_ids[0])) for p, text in rows]
    encoded.sort(key=lambda row: len(row[1]))
    cuts = [len(rows) * i // _CHUNKS for i in range(_CHUNKS + 1)]
    parts = [_log_likelihood(policy, encoded[a:b]) for a, b in pairwise(cuts) if a < b]
    return -torch.stack(parts).sum() / sum(len(ids) for _, ids in encoded)


def _log_likelihood(policy: Policy, encoded: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> Tensor:
    lengths = torch.tensor([len(ids) for _, ids in encoded])
    tokens = pad_sequence([torch.tensor(ids) for _, ids in encoded], True, policy.pad_id)
    logp = completion_logprobs(policy, [prompt for prompt, _ in encoded], tokens.unsqueeze(1), 1.0)[:, 0]
    return logp.masked_fill(torch.arange(tokens.shape[1]) >= lengths.unsqueeze(1), 0.0).sum()
