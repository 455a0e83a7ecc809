"""What the receiver's policy says of completions: one forward pass for all checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from hanse.policy.policy import Policy
from hanse.policy.sampler import Sampling


@dataclass(frozen=True)
class Readings:
    """Float32, shape (N, T); behind a completion's end they mean nothing. At the sampler's temperature,
    before truncation, unless said otherwise.

    `logp`: of the token. `entropy`, `variance`: mean and variance of -log p of a token drawn at this place.
    `margin`: the token's logit (over temperature) minus the k-th largest, k = `top_k` (inf where nothing
    is cut). `gap`: log p of the token minus that of the likeliest. `replay`: how much the best perturbed
    score among tokens that surely pass the sampler's truncation exceeds the token's own, in the slot's
    random stream: at most rounding for the sampler's own completions.
    """

    logp_NT: Tensor
    entropy_NT: Tensor
    variance_NT: Tensor
    margin_NT: Tensor
    gap_NT: Tensor
    replay_NT: Tensor


def read_completions(
    policy: Policy,
    prompts_P: list[tuple[int, ...]],
    tokens_PGT: Tensor,
    seeds_P: Sequence[int],
    slots_PG: Tensor,
    sampling: Sampling,
    top_k: int | None = None,
) -> Readings:
    """Readings of G completions of each of P prompts, rows in (P, G) order. `top_k`: None is the sampler's."""
    raise NotImplementedError
