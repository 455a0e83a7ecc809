"""Which answers give way, and to which: plain sums over rewards and lists, no model in sight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from hanse.policy.rollout import Group
from hanse.recipe.public import PublicSpec

POOLED = 4
"""Peers' answers that a problem's pool holds at most, as multiples of those that a group can take."""
Ids = tuple[int, ...]
Item = TypeVar("Item")


def right_places(rewards_G: Tensor, correct: float) -> list[int]:
    """Where answers are correct; unscored ones (NaN) are not."""
    return [int(i) for i in (rewards_G >= correct).nonzero().squeeze(1)]


def wanted(right: int, size: int, spec: PublicSpec) -> int:
    """How many peers' answers a group of `size` takes of which `right` are correct: none where `below` of
    them are, and never more than are not correct."""
    return max(0, min(spec.most, size - right)) if right < spec.below * size else 0


def wrong_places(rewards_G: Tensor, spec: PublicSpec) -> list[int]:
    """The answers that give way if there are peers' for them: the first wrong ones. Unscored ones (NaN) stay
    what they are, as nobody knows what they were."""
    wrong = [int(i) for i in (rewards_G < spec.correct).nonzero().squeeze(1)]
    return wrong[: wanted(len(right_places(rewards_G, spec.correct)), len(rewards_G), spec)]


def in_turn(answers: Mapping[int, Sequence[Item]], order: Sequence[int], most: int) -> list[tuple[int, Item]]:
    """At most `most` answers and whose they are: everybody's first in the given order, then their second."""
    longest = max((len(own) for own in answers.values()), default=0)
    turns = [(k, answers[k][i]) for i in range(longest) for k in order if i < len(answers[k])]
    return turns[:most]


@dataclass(frozen=True)
class Offer:
    """A peer's answer that its receiver found correct. `stopped`: it ends with an end token; `logp_T`: under
    the receiver's policy; `weight`: what it counts for, at most 1."""

    peer: int
    ids: Ids
    stopped: bool
    reward: float
    logp_T: Tensor
    weight: float = 1.0


def mixed(group: Group, places: Sequence[int], offers: Sequence[Offer]) -> Group:
    """The group with the answers at the first of `places` replaced by offers, as many as there are of both.
    Advantages are still to come, of the mixed rewards."""
    swaps = list(zip(places, offers, strict=False))
    width = max(group.tokens_GT.shape[1], *(len(offer.ids) for _, offer in swaps), 0)
    tokens, logp = _widened(group.tokens_GT, width), _widened(group.logp_GT, width)
    kept = None if group.kept_logp_GT is None else _widened(group.kept_logp_GT, width)
    assert group.rewards_G is not None
    lengths, ended, rewards = group.lengths_G.clone(), group.terminated_G.clone(), group.rewards_G.clone()
    for place, offer in swaps:
        size = len(offer.ids)
        tokens[place, :size] = torch.tensor(offer.ids).to(tokens)
        logp[place, :size] = offer.logp_T[:size].to(logp)
        lengths[place], ended[place], rewards[place] = size, offer.stopped, offer.reward
        if kept is not None:
            kept[place] = 0.0
    return replace(
        group,
        tokens_GT=tokens,
        lengths_G=lengths,
        terminated_G=ended,
        logp_GT=logp,
        kept_logp_GT=kept,
        rewards_G=rewards,
        parts=None,
    )


def weights_of(size: int, places: Sequence[int], offers: Sequence[Offer]) -> Tensor:
    """What each answer of a mixed group counts for: 1 for own ones. Float64, shape (G,)."""
    weights = torch.ones(size, dtype=torch.float64)
    for place, offer in zip(places, offers, strict=False):
        weights[place] = offer.weight
    return weights


def _widened(values_GT: Tensor, width: int) -> Tensor:
    """A copy, zeros on the right."""
    return torch.nn.functional.pad(values_GT, (0, width - values_GT.shape[1])).clone()
