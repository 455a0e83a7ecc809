"""BoT (2610.09804): a group as one bag of tokens, in which each completion weighs the same."""

from __future__ import annotations

import torch
from torch import Tensor

from hanse.grpo.advantages import EPSILON, group_mean_variance, informative


def token_advantages(
    global_PG: Tensor,
    local_PGT: Tensor,
    mask_PGT: Tensor,
    *,
    scaled: bool = True,
    epsilon: float = EPSILON,
) -> Tensor:
    """A_t = (r_t - mu) / (sigma + epsilon) of token rewards r_t = global + local. Shape (P, G, T).

    mu = 1/K sum_k 1/L_k sum_t r_t and sigma² = 1/K sum_k 1/L_k sum_t (r_t - mu)², eqs. 1 and 2, as the
    population variance of the completions' means plus the mean variance inside them: with all local rewards
    0 every bit is GRPO's with the population deviation. `scaled` False: centred only.

    NaN global rewards (unscored) count nowhere and get 0, as do tokens outside the mask. A group without any
    difference gets exactly 0.
    """
    lengths = mask_PGT.sum(-1).clamp(min=1)
    local = torch.where(mask_PGT, local_PGT, 0.0).to(global_PG.dtype)
    inner = local.sum(-1) / lengths
    spread = torch.where(mask_PGT, local - inner.unsqueeze(-1), 0.0)
    means, within = global_PG + inner, spread.square().sum(-1) / lengths
    scored = ~global_PG.isnan()
    mean, between = group_mean_variance(means, population=True)
    inside = (within * scored).sum(-1) / scored.sum(-1).clamp(min=1)
    sigma = (between + inside).sqrt()
    credit = (means - mean.unsqueeze(-1)).unsqueeze(-1) + spread
    if scaled:
        credit = credit / (sigma + epsilon).unsqueeze(-1).unsqueeze(-1)
    differs = informative(means) | (inside > 0)
    counts = mask_PGT & scored.unsqueeze(-1) & differs.unsqueeze(-1).unsqueeze(-1)
    return torch.where(counts, credit, torch.zeros_like(credit))


def settled(verdicts_S: list[int], after_error: str) -> list[int]:
    """Verdicts -1, 0, 1 of a completion's steps; after_error "none": those behind the first -1 are 0."""
    if after_error != "none" or -1 not in verdicts_S:
        return verdicts_S
    first = verdicts_S.index(-1)
    return [e if i <= first else 0 for i, e in enumerate(verdicts_S)]


def spread_over(spans_S: list[range], verdicts_S: list[int], width: int) -> Tensor:
    """S_t = 1/|S| sum of the verdicts e_s of the steps s that cover token t. float64, shape (width,)."""
    row = torch.zeros(width, dtype=torch.float64)
    for span, verdict in zip(spans_S, verdicts_S, strict=True):
        row[span.start : span.stop] += verdict / len(spans_S)
    return row
