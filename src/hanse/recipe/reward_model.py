"""The `[reward_model]` part of a recipe, of mode "reward-model": what is learnt from preferences, and how."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hanse.recipe.section import Section

Method = Literal["fedavg", "debiased", "oracle", "clustered"]


class RewardModelSpec(Section):
    """A Bradley–Terry model on the recipe's policy.

    `method`: one model of clients drawn uniformly ("fedavg"), or by group ("debiased"); a model for each
    group, which the data tells ("oracle") or each client chooses by its loss ("clustered"). `groups`: how
    many are looked for at most, or models of "clustered". `known_groups`: debiased by what the data tells, a
    reference. `warmup_rounds`: drawn uniformly, before groups are looked for; `ema`: share of the past in a
    client's signature.

    `train`: the policy's trainable parameters and the head, or the head alone. `adaptation_steps`: steps of a
    client from the model that it is given, after which accuracy counts; None: as many as `local_steps`.
    `max_tokens`: completions are read up to here.
    """

    method: Method = "debiased"
    groups: int = Field(default=4, ge=1, le=16)
    known_groups: bool = False
    warmup_rounds: int = Field(default=6, ge=1)
    ema: float = Field(default=0.5, ge=0, lt=1)
    train: Literal["all", "head"] = "all"
    local_steps: int = Field(default=8, ge=1)
    adaptation_steps: int | None = Field(default=None, ge=1)
    pairs_per_step: int = Field(default=16, ge=1)
    lr: float = Field(default=3e-3, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    max_grad_norm: float = Field(default=1.0, gt=0)
    max_tokens: int = Field(default=1024, ge=1)

    @property
    def adaptation(self) -> int:
        """Local steps before accuracy counts."""
        return self.adaptation_steps or self.local_steps

    @property
    def several(self) -> bool:
        """Whether there are several models, one for each group."""
        return self.method in ("oracle", "clustered")
