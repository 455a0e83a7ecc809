"""The seam: what a lying node of a swarm sends, and how its success is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hanse.policy.policy import Policy
from hanse.policy.rollout import Group
from hanse.recipe.adversary import CompletionAttackSpec
from hanse.swarm.delivery import Delivery
from hanse.tasks.problem import Problem

Sample = Callable[[Sequence[Problem], int, Sequence[int]], list[Group]]
"""(problems, completions each, seeds) -> scored groups of the current policy."""
Judge = Callable[[Sequence[Problem], Sequence[str]], "np.ndarray[tuple[int], np.dtype[np.float64]]"]
"""(problems, texts), one each -> rewards; NaN: unscored."""


@dataclass(frozen=True)
class Turn:
    """One round of a lying node.

    `slots`: what it owes, by problem id. `honest`: what it would send if it did not lie, in that order, made
    with the right seeds. `seed`: of its own draws this round, shared by the nodes that collude. `members`:
    ids of all of them; `node` is this one. `group_size`: of whole groups, which a node owns in vertical
    topology. `temperature`, `top_k`: of the sampler. `heard`: what all nodes sent last round.
    """

    round: int
    node: int
    members: Sequence[int]
    problems: Mapping[str, Problem]
    slots: Mapping[str, Sequence[int]]
    honest: Callable[[], list[Delivery]]
    seed: int
    policy: Policy
    sample: Sample
    score: Judge
    max_new_tokens: int
    group_size: int
    temperature: float
    top_k: int
    heard: Sequence[Delivery] = ()


Craft = Callable[[CompletionAttackSpec, Turn], list[Delivery] | bytes]
"""What is sent instead: deliveries, or raw bytes."""
Choose = Callable[[CompletionAttackSpec, Sequence[Problem], int, int], list[Problem]]
"""(options, the node's problems, how many, seed) -> the problems that it answers where it may choose."""
Success = Callable[[Problem, str], bool | None]
"""Whether a completion shows what the attack wants; None: it could not show either (not counted)."""
Told = Callable[[CompletionAttackSpec], Success | None]
"""How success is told under these options; None: by length or honest reward."""


def untold(spec: CompletionAttackSpec) -> None:
    """Nothing is planted."""


@dataclass(frozen=True)
class CompletionAttack:
    """What an attack sends, how its success is told, and which problems it wants where it may choose."""

    craft: Craft
    told: Told = untold
    choose: Choose | None = None
