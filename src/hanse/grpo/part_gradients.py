"""Gradients of several sets of advantages on one batch: one forward pass, one short backward pass each."""

from __future__ import annotations

import re

import torch
from torch import Tensor

from hanse.grpo.batch import Batch, tiles, totals
from hanse.grpo.objectives import OBJECTIVES, Clipping, LossInputs, Totals
from hanse.policy.logprobs import completion_logprobs
from hanse.policy.policy import Policy
from hanse.recipe.model import GrpoSpec

_LAYER = re.compile(r"\.layers\.(\d+)\.")


def last_layer(policy: Policy) -> list[Tensor]:
    """What trains in the last layer, in name order; everything that trains where layers have no numbers."""
    named = sorted((name, p) for name, p in policy.model.named_parameters() if p.requires_grad)
    numbers = {name: int(found.group(1)) for name, _ in named if (found := _LAYER.search(name))}
    last = max(numbers.values(), default=None)
    return [p for name, p in named if last is None or numbers.get(name) == last]


def part_gradients(
    policy: Policy, spec: GrpoSpec, batch: Batch, advantages_MPG: Tensor, rollouts: int
) -> Tensor:
    """The on-policy gradient of the recipe's objective with each set of advantages, in the last layer.

    Float32, shape (M, N). Groups without any advantage are left out. Ratios are 1, so that gradients add up
    like advantages: those of sum_m w_m A_m are sum_m w_m g_m.
    """
    policy.model.eval()
    parameters, advantages = last_layer(policy), advantages_MPG.to(policy.device, torch.float32)
    total = torch.zeros(len(advantages), sum(p.numel() for p in parameters), device=policy.device)
    denominators = totals(batch, batch, 1, spec.max_new_tokens)
    busy = (advantages != 0).any(0).any(-1).nonzero().squeeze(1).tolist()
    if not busy:
        return total
    batch, advantages = batch.select(busy), advantages[:, busy]
    P, G = batch.advantages_PG.shape
    for tile in tiles(P, G, rollouts):
        micro, own = batch.select(*tile), advantages[:, tile[0], tile[1]]
        logp = completion_logprobs(policy, micro.prompts_P, micro.tokens_PGT, spec.temperature)
        losses = [_loss(spec, logp, micro, one, denominators) for one in own]
        for row, loss in zip(total, losses, strict=True):
            parts = torch.autograd.grad(loss, parameters, retain_graph=loss is not losses[-1])
            row += torch.cat([part.reshape(-1).float() for part in parts])
    return total


def _loss(spec: GrpoSpec, logp_PGT: Tensor, micro: Batch, advantages_PG: Tensor, over: Totals) -> Tensor:
    logp = logp_PGT.flatten(0, 1)
    inputs = LossInputs(
        logp_NT=logp,
        old_logp_NT=logp.detach(),
        advantages_N=advantages_PG.flatten(),
        mask_NT=micro.mask_PGT.flatten(0, 1),
        totals=over,
        clipping=Clipping(spec.clip_low, spec.clip_low if spec.clip_high is None else spec.clip_high),
    )
    return OBJECTIVES[spec.objective](inputs).value
