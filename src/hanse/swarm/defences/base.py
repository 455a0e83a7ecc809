"""The seam: what a defence sees and what it says.

Verdicts are pure functions of the round's beacon, the policy and the agreed set of deliveries, never of who
asks: nodes of one policy would otherwise drift apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from hanse.policy.readings import Readings
from hanse.policy.sampler import Sampling
from hanse.swarm.assignment import Assignment
from hanse.swarm.delivery import Delivery
from hanse.tasks.problem import Problem


@dataclass(frozen=True)
class View:
    """The well-formed deliveries of a round, in order of (problem, slot, node), and what the receiver's
    policy says of them. N deliveries, each in a row; T tokens at most.

    `terminated_N`: whether the last token ends the completion; `eos_ids`: tokens that do. `rewards_N` are the
    receiver's own (NaN: unscored). `policies`: digests of the current policy and those
    before it, newest first. `memory` is what the defence left behind last round. `own_lengths`: of what the
    receiver itself was rewarded for, where its own is not among the deliveries.
    """

    round: int
    deliveries_N: Sequence[Delivery]
    problems_N: Sequence[Problem]
    texts_N: Sequence[str]
    tokens_NT: Tensor
    lengths_N: Tensor
    terminated_N: Tensor
    rewards_N: Tensor
    sampling: Sampling
    assignment: Assignment
    policies: Sequence[str]
    read: Callable[[], Readings]
    memory: Mapping[str, Any] = field(default_factory=dict)
    eos_ids: Sequence[int] = ()
    own_lengths: Sequence[int] = ()

    @cached_property
    def readings(self) -> Readings:
        """One forward pass over all completions, made when the first defence asks for it."""
        return self.read()

    @cached_property
    def node_N(self) -> Tensor:
        return torch.tensor([d.node for d in self.deliveries_N], dtype=torch.int64)

    @cached_property
    def group_N(self) -> Tensor:
        """The index of each delivery's problem among those of the view."""
        index: dict[str, int] = {}
        rows = [index.setdefault(d.problem, len(index)) for d in self.deliveries_N]
        return torch.tensor(rows, dtype=torch.int64)

    @cached_property
    def mask_NT(self) -> Tensor:
        """True where a token is real."""
        return torch.arange(self.tokens_NT.shape[1]) < self.lengths_N.unsqueeze(1)

    @cached_property
    def rewarded_N(self) -> Tensor:
        """What gains by its reward: more than 0, or more than another of its group."""
        unscored = self.rewards_N.isnan()
        worst = self.rewards_N.new_full((self.size,), torch.inf)
        filled = self.rewards_N.masked_fill(unscored, torch.inf)
        worst = worst.scatter_reduce(0, self.group_N, filled, "amin")[self.group_N]
        return ~unscored & ((self.rewards_N > 0) | (self.rewards_N > worst))

    def real(self, values_NT: Tensor, fill: float = 0.0) -> Tensor:
        """`values_NT` with `fill` behind each completion's end."""
        return values_NT.masked_fill(~self.mask_NT, fill)

    @property
    def size(self) -> int:
        return len(self.deliveries_N)


@dataclass(frozen=True)
class Finding:
    """`rejected_N`; `score_N`: the more, the more suspicious (for ROC curves). `memory` for the next round:
    plain JSON. `figures`: of the whole round, worth a line in its metrics."""

    rejected_N: Tensor
    score_N: Tensor
    memory: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)


Defence = Callable[[Any, View, Tensor], Finding]
"""(its spec, view, which deliveries earlier defences accepted) -> finding. A delivery that is not accepted
any more need not be judged, but may be; it must not count as evidence of honest behaviour."""
