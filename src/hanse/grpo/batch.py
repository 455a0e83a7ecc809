"""Groups packed for an update: rectangular micro-batches, global denominators, idle rows left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from hanse.grpo.objectives import Totals
from hanse.policy.rollout import Group, length_mask


@dataclass(frozen=True)
class Batch:
    """P groups of G rollouts. Tokens, masks and log-probs are (P, G, T), advantages (P, G), float32, and
    (P, G, T) beside them where tokens have their own."""

    prompts_P: list[tuple[int, ...]]
    tokens_PGT: Tensor
    lengths_PG: Tensor
    mask_PGT: Tensor
    advantages_PG: Tensor
    sampler_logp_PGT: Tensor
    behaviour_logp_PGT: Tensor
    """Under the distribution that was really sampled from, after top-k and top-p."""
    old_logp_PGT: Tensor | None = None
    advantages_PGT: Tensor | None = None

    @property
    def rollouts(self) -> int:
        return self.advantages_PG.numel()

    def select(self, prompts: slice | list[int], members: slice = slice(None)) -> Batch:
        """The given groups and members, cut to their longest completion."""
        lengths = self.lengths_PG[prompts, members]
        width = max(1, int(lengths.max())) if lengths.numel() else 1

        def part(tensor: Tensor) -> Tensor:
            return tensor[prompts, members, :width]

        chosen = (
            self.prompts_P[prompts] if isinstance(prompts, slice) else [self.prompts_P[i] for i in prompts]
        )
        return Batch(
            prompts_P=chosen,
            tokens_PGT=part(self.tokens_PGT),
            lengths_PG=lengths,
            mask_PGT=part(self.mask_PGT),
            advantages_PG=self.advantages_PG[prompts, members],
            sampler_logp_PGT=part(self.sampler_logp_PGT),
            behaviour_logp_PGT=part(self.behaviour_logp_PGT),
            old_logp_PGT=None if self.old_logp_PGT is None else part(self.old_logp_PGT),
            advantages_PGT=None if self.advantages_PGT is None else part(self.advantages_PGT),
        )


def pack(groups: Sequence[Group], *, mask_truncated: bool = False) -> Batch:
    """Groups of one size, with rewards and advantages, as one batch.

    A rollout is active in the loss if it was scored and, with `mask_truncated`, if it ended by itself;
    numerator and denominators use this same mask. Raises ValueError for groups of different sizes.
    """
    sizes = {g.size for g in groups}
    if len(sizes) > 1:
        raise ValueError(f"a batch holds groups of one size, got {sorted(sizes)}")
    tokens = stack_padded([g.tokens_GT for g in groups])
    lengths = torch.stack([g.lengths_G for g in groups])
    logp = stack_padded([g.logp_GT for g in groups])
    cut = any(g.kept_logp_GT is not None for g in groups)
    kept = stack_padded([g.kept_logp_GT for g in groups if g.kept_logp_GT is not None]) if cut else None
    mask = length_mask(lengths.view(-1), tokens.shape[-1]).view_as(tokens)
    return Batch(
        prompts_P=[g.prompt_ids for g in groups],
        tokens_PGT=tokens,
        lengths_PG=lengths,
        mask_PGT=mask & _active(groups, mask_truncated).to(mask.device).unsqueeze(-1),
        advantages_PG=torch.stack([_advantages(g) for g in groups]).to(lengths.device, torch.float32),
        sampler_logp_PGT=logp,
        behaviour_logp_PGT=logp if kept is None else logp - kept,
        advantages_PGT=_token_advantages(groups, lengths.device),
    )


def stack_padded(rows_P: Sequence[Tensor]) -> Tensor:
    """Tensors of shape (G, T) as one (P, G, T), zeros on the right of the shorter ones."""
    width = max(row.shape[-1] for row in rows_P)
    return torch.stack(
        [row if row.shape[-1] == width else pad(row, (0, width - row.shape[-1])) for row in rows_P]
    )


def _active(groups: Sequence[Group], mask_truncated: bool) -> Tensor:
    """Whether a rollout counts in the loss, shape (P, G). Groups without rewards count whole."""
    rewards = [torch.zeros(g.size) if g.rewards_G is None else g.rewards_G for g in groups]
    active = ~torch.stack(rewards).isnan()
    return active & torch.stack([g.terminated_G for g in groups]).cpu() if mask_truncated else active


def _advantages(group: Group) -> Tensor:
    if group.advantages_G is None:
        raise ValueError(f"group {group.problem.id!r} has no advantages")
    return group.advantages_G


def _token_advantages(groups: Sequence[Group], device: torch.device) -> Tensor | None:
    """Those of tokens, float32, shape (P, G, T); None where no group has any. Groups without share theirs."""
    if all(g.advantages_GT is None for g in groups):
        return None
    rows = [
        _advantages(g).unsqueeze(-1).expand(g.tokens_GT.shape) if g.advantages_GT is None else g.advantages_GT
        for g in groups
    ]
    return stack_padded(rows).to(device, torch.float32)


def totals(batch: Batch, whole: Batch, updates: int, max_tokens: int) -> Totals:
    """Denominators of the update on `batch`, one of `updates` that share the rollouts of `whole`."""
    return Totals(
        sequences=max(1.0, float(batch.mask_PGT.any(-1).sum())),
        tokens=max(1.0, float(batch.mask_PGT.sum())),
        batch_tokens=max(1.0, float(whole.mask_PGT.sum()) / updates),
        slots=float(batch.rollouts),
        max_tokens=float(max_tokens),
    )


def without_idle_groups(batch: Batch) -> Batch:
    """Leave out groups none of whose active rollouts has an advantage: they have no gradient if beta = 0."""
    credit = batch.advantages_PG.unsqueeze(-1) if batch.advantages_PGT is None else batch.advantages_PGT
    busy = ((credit != 0) & batch.mask_PGT).flatten(1).any(-1)
    return batch if bool(busy.all()) else batch.select(busy.nonzero().squeeze(1).tolist())


def tiles(P: int, G: int, rollouts: int) -> Iterator[tuple[slice, slice]]:
    """Rectangles of at most `rollouts` of P × G, which is a multiple of G or divides it: groups, members."""
    prompts, members = max(1, rollouts // G), min(G, rollouts)
    for start in range(0, P, prompts):
        for first in range(0, G, members):
            yield slice(start, start + prompts), slice(first, first + members)


def micro_batches(batch: Batch, rollouts: int) -> Iterator[Batch]:
    """The batch in tiles, each cut to its longest completion."""
    P, G = batch.advantages_PG.shape
    for prompts, members in tiles(P, G, rollouts):
        yield batch.select(prompts, members)


def fitting_micro_batch(wanted: int, group_size: int) -> int:
    """The largest valid micro-batch not above `wanted`: a multiple of the group size, or a divisor of it."""
    if wanted >= group_size:
        return wanted - wanted % group_size
    return max(d for d in range(1, max(1, wanted) + 1) if group_size % d == 0)
