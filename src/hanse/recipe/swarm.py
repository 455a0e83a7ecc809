"""The `[swarm]` part of a recipe: what peers exchange, and what they believe of one another."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hanse.recipe.policy import PolicySpec
from hanse.recipe.section import Section

Reject = Literal["zero", "mask", "drop", "quarantine"]
"""What becomes of a rejected completion. zero: reward 0, keeps its gradient (as published; a weapon, see
docs/methods/swarm.md). mask: counts with reward 0 in the group's statistics, no gradient. drop: counts
nowhere. quarantine: everything that its node sent this round is dropped."""


class _Defence(Section):
    """`on_reject`: None is the default of the defence."""

    on_reject: Reject | None = None


class AssignmentDefence(_Defence):
    """Only the problems and slots that the round's beacon gives to a node. `complete`: all of them, or the
    node's whole delivery is rejected (no withholding). `missing`: the share of them that may be missing, what
    earlier defences rejected included."""

    type: Literal["assignment"] = "assignment"
    complete: bool = True
    missing: float = Field(default=0.0, ge=0, lt=1)


class PolicyDefence(_Defence):
    """Made with the receiver's own policy, or one of at most `staleness` rounds ago."""

    type: Literal["policy"] = "policy"
    staleness: int = Field(default=0, ge=0, le=7)


class ClaimsDefence(_Defence):
    """The sender's log-probs are the receiver's, to within `tolerance` a token on average."""

    type: Literal["claims"] = "claims"
    tolerance: float = Field(default=0.05, gt=0)


class LengthDefence(_Defence):
    """At most `limit` tokens (None: grpo.max_new_tokens); without an end only exactly grpo.max_new_tokens."""

    type: Literal["length"] = "length"
    limit: int | None = Field(default=None, ge=1)


class DuplicatesDefence(_Defence):
    """At most `most` completions of a node and group that are the same, or as alike as `similarity`
    (Jaccard index of token 4-grams; None: the same only), unless independent samples agree so much with a
    chance of `p` or more, as those of short answers do."""

    type: Literal["duplicates"] = "duplicates"
    most: int = Field(default=1, ge=1)
    similarity: float | None = Field(default=0.9, gt=0, le=1)
    p: float = Field(default=1e-4, gt=0, lt=1)


class TerminationDefence(_Defence):
    """A completion that ends by itself does so with at least `min_probability` (INTELLECT-2: 0.1)."""

    type: Literal["termination"] = "termination"
    min_probability: float = Field(default=0.02, ge=0, lt=1)


class TopKDefence(_Defence):
    """Every token among the `k` most likely ones (None: grpo.top_k), but for `violations`. `tolerance`:
    logits below the k-th that still pass. The published defence of Hail to the Thief."""

    type: Literal["top-k"] = "top-k"
    k: int | None = Field(default=None, ge=1)
    tolerance: float = Field(default=1e-3, ge=0)
    violations: int = Field(default=0, ge=0)


class MinPDefence(_Defence):
    """Every token at least `min_p` times as likely as the likeliest, but for `violations`."""

    type: Literal["min-p"] = "min-p"
    min_p: float = Field(default=1e-3, gt=0, lt=1)
    violations: int = Field(default=0, ge=0)


class TypicalityDefence(_Defence):
    """How surprising the tokens are against what the policy expects of itself, in standard deviations: over
    the whole completion at most `z`, over any `window` of tokens at most `window_z`."""

    type: Literal["typicality"] = "typicality"
    z: float = Field(default=5.0, gt=0)
    window: int = Field(default=4, ge=1)
    window_z: float = Field(default=8.0, gt=0)


class ReplayDefence(_Defence):
    """Every token is the one that the slot's own random stream gives (Token-DiFR, 2511.20621), but for
    `violations`. `tolerance`: perturbed logits that may differ by rounding; `ties`: the share of a
    completion's tokens, rounded up, that may make use of it."""

    type: Literal["replay"] = "replay"
    tolerance: float = Field(default=1e-3, ge=0)
    ties: float = Field(default=0.02, ge=0, le=1)
    violations: int = Field(default=0, ge=0)


class LengthsDefence(_Defence):
    """A node's rewarded completions are not longer than the others': one-sided rank test at `p` a round, or
    over its last `memory` rounds together."""

    type: Literal["lengths"] = "lengths"
    p: float = Field(default=1e-4, gt=0, lt=1)
    memory: int = Field(default=5, ge=1)


class StepsDefence(_Defence):
    """A rule-based judge for worked sums: every step of the rationale is true and uses what it may. `of`:
    what is judged; of unrewarded completions most are not in order, and without them nothing is left to
    compare with (`drop`)."""

    type: Literal["steps"] = "steps"
    of: Literal["rewarded", "all"] = "rewarded"


class JudgeDefence(_Defence):
    """A chat model judges each sentence: an OpenAI-compatible `url` (with `model`, key in the environment
    variable `key_variable`). `votes`: of which more than half must accept; fails closed. `audit`: the share
    of rewarded completions that is judged."""

    type: Literal["judge"] = "judge"
    url: str = Field(pattern="^https?://")
    model: str
    key_variable: str = "HANSE_JUDGE_KEY"
    votes: int = Field(default=3, ge=1)
    audit: float = Field(default=1.0, gt=0, le=1)
    temperature: float = Field(default=0.6, ge=0)
    max_tokens: int = Field(default=768, ge=1)
    timeout_s: float = Field(default=60.0, gt=0)


class ReputationDefence(_Defence):
    """A node whose posterior share of accepted completions (Beta prior) falls below `evict_below` counts
    no more."""

    type: Literal["reputation"] = "reputation"
    prior: tuple[float, float] = (9.0, 1.0)
    evict_below: float = Field(default=0.5, gt=0, lt=1)


DefenceSpec = Annotated[
    AssignmentDefence
    | PolicyDefence
    | ClaimsDefence
    | LengthDefence
    | DuplicatesDefence
    | TerminationDefence
    | TopKDefence
    | MinPDefence
    | TypicalityDefence
    | ReplayDefence
    | LengthsDefence
    | StepsDefence
    | JudgeDefence
    | ReputationDefence,
    Field(discriminator="type"),
]


NEEDS_ONE_POLICY = frozenset({"policy", "claims", "termination", "top-k", "min-p", "typicality", "replay"})
"""Defences that only mean something where all nodes hold one policy and exchange tokens."""


class SwarmSpec(Section):
    """A swarm of `nodes` that exchange completions.

    `topology`: "horizontal" (all answer the same problems, group_size / nodes completions each) or
    "vertical" (each answers problems of its own, whole groups). `prompts` of vertical: given by the round's
    beacon, or chosen by the node. `defences`: a chain, "default", or "none". `foreign_weight`: "typical"
    damps completions that the receiver's policy would hardly write; "none" takes them as if own, as
    published. `typical_z`, `floor`: of that weight, and the mean log-prob below which a negative advantage
    gets no gradient. `rebaseline`: further completions of the receiver's own in every group. `external`:
    foreign groups a node trains on beside its own (SAPO; None: all), drawn `external_sampling`.
    `policies`: of the nodes, in turn, where they differ (none: all have `[policy]`).
    `replicas`: nodes of one policy are computed "once", or "each" (the same bits). `quorum`: share of
    nodes without which no round counts; `deadline_s`: how long a round waits for the others.
    """

    topology: Literal["horizontal", "vertical"] = "horizontal"
    nodes: int = Field(default=4, ge=1)
    prompts: Literal["assigned", "chosen"] = "assigned"
    defences: Literal["default", "none"] | list[DefenceSpec] = "default"
    foreign_weight: Literal["typical", "none"] = "typical"
    typical_z: float = Field(default=3.0, ge=0)
    floor: float = Field(default=-4.0, le=0)
    rebaseline: int = Field(default=0, ge=0)
    external: int | None = Field(default=None, ge=0)
    external_sampling: Literal["uniform", "informative"] = "informative"
    policies: list[PolicySpec] = Field(default=[])
    replicas: Literal["once", "each"] = "once"
    quorum: float = Field(default=0.5, gt=0, le=1)
    deadline_s: float = Field(default=600.0, gt=0)

    @property
    def one_replica(self) -> bool:
        """Whether what all nodes do is computed once."""
        return self.one_policy and self.replicas == "once"

    @property
    def one_policy(self) -> bool:
        """Whether all nodes hold the same values for as long as they receive the same: then tokens travel,
        and all of the checks apply. Else text does."""
        return not self.policies and self.external is None
