"""Who is asked about a question: those who got the questions near it right (FedGRPO, 2602.12014)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from hanse.grpo.shaping.embedders import ngram_counts
from hanse.randomness import generator
from hanse.tasks.problem import Prompt

UNKNOWN = -1.0
"""The competence of who answered nothing: asked last."""


def embedded(prompts_N: Sequence[Prompt], n: int, width: int) -> Tensor:
    """Hashed counts of runs of n bytes, scaled to length 1; float64, shape (N, width)."""
    texts = [
        one if isinstance(one, str) else "\n".join(m.get("content", "") for m in one) for one in prompts_N
    ]
    counts = ngram_counts(texts, n, width)
    scaled: Tensor = counts / counts.norm(dim=1, keepdim=True).clamp(min=1e-12)
    return scaled


def nearest(questions_PD: Tensor, auxiliary_AD: Tensor, count: int) -> Tensor:
    """The `count` auxiliary items with the largest cosine to each question, equal ones in their order.
    Shape (P, count)."""
    cosines = questions_PD @ auxiliary_AD.T
    return cosines.argsort(dim=1, descending=True, stable=True)[:, :count]


def competence(right_KA: Tensor, near_PL: Tensor) -> Tensor:
    """The share of the near items that each client got right; UNKNOWN where it answered none of all.
    `right_KA`: 1 or 0, NaN where a client did not answer. Shape (P, K)."""
    answered = (~right_KA.isnan()).any(1)
    shares = right_KA.nan_to_num(0.0)[:, near_PL].mean(-1).T
    return torch.where(answered, shares, torch.full_like(shares, UNKNOWN))


def chosen(competence_PK: Tensor, count: int, seed: int, prompts_P: Sequence[Prompt]) -> Tensor:
    """The `count` most competent clients for each question, in id order. Who of equal ones is drawn by the
    question, so that all its candidates, of whatever step, have the same judges. Shape (P, count)."""
    K = competence_PK.shape[1]
    drawn = [generator(seed, "experts", repr(prompt)).permutation(K) for prompt in prompts_P]
    order = torch.from_numpy(np.stack(drawn))
    best = competence_PK.gather(1, order).argsort(dim=1, descending=True, stable=True)[:, :count]
    return order.gather(1, best).sort(1).values
