"""DRA (2505.09655): a reward counts less, the more of its group says the same."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize


def similarities(embeddings_GD: Tensor) -> Tensor:
    """Cosines s_ij of G completions, cut to [0, 1]; 1 on the diagonal. Shape (G, G).

    Cutting is ours: a negative cosine could make the divisor vanish.
    """
    unit = normalize(embeddings_GD, dim=-1)
    found = (unit @ unit.T).clamp(0, 1)
    return found.fill_diagonal_(1.0)


def divisors(similarities_GG: Tensor, scored_G: Tensor) -> Tensor:
    """1 + SMI({i}, the others) = sum_j s_ij over the scored members j; 1 for unscored i. Shape (G,).

    The sum is over the prompt's whole group, as in the paper's equation; published code sums over whatever
    completions one process holds.
    """
    others = similarities_GG * scored_G * scored_G.unsqueeze(-1)
    return torch.where(scored_G, others.sum(-1), torch.ones_like(others[..., 0]))


def adjusted(
    rewards_G: Tensor, divisors_G: Tensor, *, positive_only: bool = True, normalise: bool = False
) -> Tensor:
    """R_i / (1 + SMI_i), where R_i > 0 or everywhere; NaN stays NaN. Shape (G,).

    `normalise`: times the mean divisor of the scored, so that the rewards' size stays.
    """
    scored = ~rewards_G.isnan()
    scale = divisors_G[scored].mean() if normalise and bool(scored.any()) else 1.0
    divided = rewards_G / divisors_G * scale
    return torch.where((rewards_G > 0) | (not positive_only), divided, rewards_G)
