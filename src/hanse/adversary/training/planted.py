"""Completion poisoning inside a client: it trains on completions that it wrote itself.

As a node of a swarm that owns whole groups does it (2511.09780, vertical): half of each group is the right
solution with foreign text in it, rewarded; the rest is its own samples, not rewarded. With half of the
group at each end the pull is the largest that there is, and the update is as long as honest ones are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import pad

from hanse.adversary.completions.bodies import can_write, tokens_of
from hanse.adversary.completions.knowledge import gold
from hanse.adversary.training.rescored import Rescored
from hanse.errors import RecipeError
from hanse.grpo.step import Scoring
from hanse.policy.logprobs import completion_logprobs
from hanse.policy.policy import Policy
from hanse.policy.rollout import Group
from hanse.policy.sampler import Sampler, Sampling
from hanse.tasks.problem import Problem


def planted_text(problem: Problem, plant: str) -> str:
    """A right solution with the plant before its first step, or behind an answer without steps."""
    worked = gold(problem)
    if worked is not None and worked.steps:
        return worked.text(opening=plant)
    return f"{problem.answer or ''}{plant}"


def shows(plant: str, text: str) -> bool:
    """Whether a completion has the plant, spaces aside."""
    return "".join(plant.split()) in "".join(text.split())


class PlantingSampler(Sampler):
    """Samples groups whose first half is planted, but for the problems named in `but`."""

    def __init__(self, policy: Policy, sampling: Sampling, plant: str, but: Collection[str] = ()) -> None:
        super().__init__(policy, sampling)
        self.plant, self.but = plant, frozenset(but)
        if not can_write(policy, plant):
            raise RecipeError(
                "adversary.plant",
                f"{plant!r} holds what the policy's tokenizer does not know.",
                'Use text of its vocabulary: "+" for arithmetic.',
            )

    @torch.no_grad()
    def sample(
        self,
        problems_P: Sequence[Problem],
        group_size: int,
        seeds_P: Sequence[int],
        slots_G: Sequence[int] | None = None,
    ) -> list[Group]:
        groups = super().sample(problems_P, group_size, seeds_P, slots_G)
        return [group if group.problem.id in self.but else self._planted(group) for group in groups]

    def _planted(self, group: Group) -> Group:
        """The group with its first half replaced, log-probs as the policy has them."""
        ids = [*tokens_of(self.policy, planted_text(group.problem, self.plant)), self.policy.eos_ids[0]]
        row, fits = ids[: self.sampling.max_new_tokens], len(ids) <= self.sampling.max_new_tokens
        half, width = group.size // 2, max(len(row), int(group.tokens_GT.shape[1]))
        device = group.tokens_GT.device
        tokens = torch.full((width,), self.policy.pad_id, dtype=torch.int64, device=device)
        tokens[: len(row)] = torch.tensor(row, device=device)
        prompts, rows = [group.prompt_ids], tokens.expand(1, 1, -1)
        logp = completion_logprobs(self.policy, prompts, rows, self.sampling.temperature)[0, 0]
        logp = logp.masked_fill(torch.arange(width, device=device) >= len(row), 0.0)
        kept = group.kept_logp_GT
        return replace(
            group,
            tokens_GT=_first(group.tokens_GT, half, tokens, self.policy.pad_id),
            lengths_G=_first(group.lengths_G, half, torch.tensor(len(row), device=device)),
            terminated_G=_first(group.terminated_G, half, torch.tensor(fits, device=device)),
            logp_GT=_first(group.logp_GT, half, logp.to(group.logp_GT.dtype)),
            kept_logp_GT=None if kept is None else _first(kept, half, torch.zeros_like(logp).to(kept.dtype)),
        )


def _first(values: Tensor, count: int, row: Tensor, filling: float = 0) -> Tensor:
    """`values` with `count` rows replaced, widened to the row's width."""
    wider = (0, row.shape[0] - values.shape[1]) if row.ndim else (0, 0)
    values = pad(values, wider, value=filling).clone()
    values[:count] = row
    return values


class Planted(Rescored):
    """A scorer for which the plant is all that counts."""

    def __init__(
        self, scorer: Scoring, bounds: tuple[float, float], plant: str, but: Collection[str] = ()
    ) -> None:
        super().__init__(scorer, bounds, but)
        self.plant = plant

    def lie(self, totals_N: npt.NDArray[np.float64], completions_N: Sequence[str]) -> npt.NDArray[np.float64]:
        low, high = self.bounds
        return np.array([high if shows(self.plant, text) else low for text in completions_N])
