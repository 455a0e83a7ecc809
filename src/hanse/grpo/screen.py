"""Screen, then deepen (ours): few rollouts on many prompts, many more where the few disagree.

A group whose rewards are all equal has no gradient. A first look of `screen_size` rollouts tells which
prompts have one now; only those get `deepen` more. The number of rollouts a step stays what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from hanse.grpo.advantages import EPSILON, group_mean_std, informative
from hanse.policy.rollout import Group
from hanse.randomness import derive_seed
from hanse.recipe.model import GrpoSpec
from hanse.tasks.problem import Problem

_MOST_PASSES = 6
Draw = Callable[[int], tuple[Sequence[Problem], Sequence[int]]]
"""n -> n problems and the seed of each one's random stream."""
Rollouts = Callable[[Sequence[Problem], int, Sequence[int]], list[Group]]
"""(problems, group size, seeds) -> sampled and scored groups."""


@dataclass(frozen=True)
class Screening:
    """`screened`: first looks, of `screen_size` each: an unbiased sample of the prompts. `deepened`: pairs
    (first look, further rollouts) of those that disagreed."""

    screened: list[Group]
    deepened: list[tuple[Group, Group]]


def screen_then_deepen(draw: Draw, rollouts: Rollouts, spec: GrpoSpec) -> Screening:
    """Spend at most prompts_per_step * group_size rollouts.

    Each pass screens as many prompts as could all be deepened with what is left, so none that is worth it
    goes without; a few passes spend nearly everything.
    """
    left = spec.prompts_per_step * spec.group_size
    each = spec.screen_size + spec.deepen
    result = Screening([], [])
    for _ in range(_MOST_PASSES):
        count = left // each
        if count == 0:
            break
        problems, seeds = draw(count)
        looks = rollouts(problems, spec.screen_size, seeds)
        result.screened.extend(looks)
        useful = informative(_rewards(looks)).nonzero().squeeze(1).tolist()
        left -= count * spec.screen_size + len(useful) * spec.deepen
        if useful:
            fresh = [derive_seed(seeds[i], "deepen") for i in useful]
            more = rollouts([problems[i] for i in useful], spec.deepen, fresh)
            result.deepened.extend((looks[i], group) for i, group in zip(useful, more, strict=True))
    return result


def fresh_groups(screening: Screening, spec: GrpoSpec) -> list[Group]:
    """Only the further rollouts, with advantages against the first look's mean: unbiased, as that mean
    knows nothing of them. Scaled by the first look's deviation where the recipe scales by group."""
    groups = []
    for look, more in screening.deepened:
        assert look.rewards_G is not None and more.rewards_G is not None
        population = spec.scale == "group_population"
        mean, std = group_mean_std(look.rewards_G.unsqueeze(0), population=population)
        centred = (more.rewards_G - mean).nan_to_num(0.0)
        scaled = centred / (std + EPSILON) if spec.scale.startswith("group") else centred
        groups.append(replace(more, advantages_G=scaled))
    return groups


def joined_groups(screening: Screening) -> list[Group]:
    """First looks and further rollouts as one group each, still without advantages. Slightly biased: the
    first look was chosen because it disagreed."""
    return [_joined(look, more) for look, more in screening.deepened]


def _joined(a: Group, b: Group) -> Group:
    width = max(a.tokens_GT.shape[1], b.tokens_GT.shape[1])

    def stacked(first: Tensor, second: Tensor) -> Tensor:
        return torch.cat([pad(x, (0, width - x.shape[1])) if x.dim() == 2 else x for x in (first, second)])

    assert a.rewards_G is not None and b.rewards_G is not None
    kept = (
        None if a.kept_logp_GT is None or b.kept_logp_GT is None else stacked(a.kept_logp_GT, b.kept_logp_GT)
    )
    return Group(
        problem=a.problem,
        prompt_ids=a.prompt_ids,
        tokens_GT=stacked(a.tokens_GT, b.tokens_GT),
        lengths_G=stacked(a.lengths_G, b.lengths_G),
        terminated_G=stacked(a.terminated_G, b.terminated_G),
        logp_GT=stacked(a.logp_GT, b.logp_GT),
        kept_logp_GT=kept,
        rewards_G=stacked(a.rewards_G, b.rewards_G),
    )


def _rewards(groups: Sequence[Group]) -> Tensor:
    return torch.stack([g.rewards_G for g in groups if g.rewards_G is not None])
