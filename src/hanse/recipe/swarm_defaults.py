"""Which defences a swarm's recipe comes to."""

from __future__ import annotations

from hanse.recipe.swarm import (
    AssignmentDefence,
    DefenceSpec,
    DuplicatesDefence,
    LengthDefence,
    LengthsDefence,
    PolicyDefence,
    ReplayDefence,
    StepsDefence,
    SwarmSpec,
)

COARSE = 0.5
"""Replay tolerance by default where a policy does not compute in float32: bfloat16 logits are some 2^-8 of
their size apart."""
COARSE_TIES = 0.1
"""The share of tokens that may make use of it: up to 2 % of honest ones differ (2511.20621), which a short
completion must be able to exceed by chance."""
COARSE_MISSING = 0.05
"""The share of an honest node's completions that rounding may cost it before it counts as holding back."""


def one_policy_default(exact: bool = True) -> list[DefenceSpec]:
    """Where all nodes hold one policy. Replay with slots that the beacon fixes is the core: what passes is
    the node's one own sample, so that nothing is left to write (TEXT, MATH, CODE), to choose (DoS) or to fit
    to a rule (adaptive). The others are free and say more clearly what is wrong. At the end all or nothing
    again: a node could have spoilt what it would rather hold back. `exact`: the policy computes in
    float32."""
    replay = ReplayDefence() if exact else ReplayDefence(tolerance=COARSE, ties=COARSE_TIES)
    whole = AssignmentDefence(missing=0.0 if exact else COARSE_MISSING)
    return [AssignmentDefence(), PolicyDefence(), LengthDefence(), replay, whole]


def several_policies_default(worked_sums: bool = False) -> list[DefenceSpec]:
    """Where policies differ, text travels, and nothing proves how it came about: copies, the length of what
    is rewarded, and, where the task is worked sums, the rationale itself."""
    judge: list[DefenceSpec] = [StepsDefence()] if worked_sums else []
    return [AssignmentDefence(), LengthDefence(), DuplicatesDefence(), *judge, LengthsDefence()]


def defences_in_force(spec: SwarmSpec, *, worked_sums: bool = False, exact: bool = True) -> list[DefenceSpec]:
    """The chain. `worked_sums`: the task's rationales can be checked by rule. `exact`: the policy computes in
    float32."""
    if spec.defences == "none":
        return []
    if spec.defences != "default":
        return list(spec.defences)
    return one_policy_default(exact) if spec.one_policy else several_policies_default(worked_sums)
