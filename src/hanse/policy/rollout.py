"""Rollouts and groups: what the policy said, token by token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from hanse.tasks.problem import Problem


@dataclass(frozen=True)
class Rollout:
    """One sampled completion. `logp_T` is the sampler's log-prob at its temperature, before truncation."""

    token_ids: tuple[int, ...]
    logp_T: Tensor
    finish: Literal["stop", "length"]
    reward: float | None


@dataclass(frozen=True)
class RewardParts:
    """A group's rewards one by one, those with a weight. `values_MG`: NaN = unscored or not applicable."""

    names_M: tuple[str, ...]
    weights_M: tuple[float, ...]
    values_MG: Tensor


@dataclass
class Group:
    """The G rollouts of one problem, packed: the unit of advantage, of calibration, of privacy.

    Tokens are right-padded; what is real is told by `lengths_G` alone, never by token values.
    `kept_logp_GT` is the log of the mass that top-k/top-p kept (None: nothing was cut), so that
    `logp_GT - kept_logp_GT` is the log-prob under the truncated distribution.
    Rewards: NaN = unscored. `advantages_GT`: where tokens have advantages of their own; `advantages_G` are
    then their means. Shapes (G, T) and (G,). `parts`: rewards one by one, where they are compared so.
    """

    problem: Problem
    prompt_ids: tuple[int, ...]
    tokens_GT: Tensor
    lengths_G: Tensor
    terminated_G: Tensor
    logp_GT: Tensor
    kept_logp_GT: Tensor | None = None
    rewards_G: Tensor | None = None
    advantages_G: Tensor | None = None
    advantages_GT: Tensor | None = None
    parts: RewardParts | None = None

    @property
    def size(self) -> int:
        return int(self.tokens_GT.shape[0])

    @property
    def mask_GT(self) -> Tensor:
        return length_mask(self.lengths_G, int(self.tokens_GT.shape[1]))

    def weigh(self, weight: float) -> None:
        """Multiply all advantages."""
        assert self.advantages_G is not None
        self.advantages_G = self.advantages_G * weight
        if self.advantages_GT is not None:
            self.advantages_GT = self.advantages_GT * weight

    def token_ids_G(self) -> list[list[int]]:
        return [row[:n] for row, n in zip(self.tokens_GT.tolist(), self.lengths_G.tolist(), strict=True)]

    def __iter__(self) -> Iterator[Rollout]:
        for i, ids in enumerate(self.token_ids_G()):
            reward = None if self.rewards_G is None else float(self.rewards_G[i])
            yield Rollout(
                token_ids=tuple(ids),
                logp_T=self.logp_GT[i, : len(ids)],
                finish="stop" if self.terminated_G[i] else "length",
                reward=None if reward is None or reward != reward else reward,
            )


def length_mask(lengths_N: Tensor, width: int) -> Tensor:
    """True where a token is real. Shape (N, width)."""
    return torch.arange(width, device=lengths_N.device) < lengths_N.unsqueeze(1)
