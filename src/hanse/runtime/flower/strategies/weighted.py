"""Updates weighted by what their rewards can teach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from hanse.federation.weighting import Standing, State, weigh
from hanse.recipe.federation import FederationSpec, WeightsSpec
from hanse.runtime.flower.strategies.base import HanseStrategy, Usable


class HanseRewardWeighted(HanseStrategy):
    """Weights by the clients' `reward-std`, none above `cap` / K whatever a client says; `ema` smooths them.

    A round in which no client has signal counts all equally (docs/methods/fed-grpo.md). `weighting`:
    "samples" and "uniform" for comparison.
    """

    def __init__(
        self,
        *,
        weighting: Literal["reward-std", "samples", "uniform"] = "reward-std",
        cap: float | None = 2.0,
        ema: float | None = None,
        gamma: float = 1.0,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self._spec = FederationSpec(weighting=weighting, weights=WeightsSpec(cap=cap, ema=ema, gamma=gamma))
        self._state: State = {}

    def combine(self, round: int, base: Tensor, usable: Sequence[Usable]) -> tuple[Tensor, list[float]]:
        standings = [
            Standing(one.node, one.signal, float((one.values.double() - base.double()).norm()))
            for one in usable
        ]
        weights, self._state = weigh(self._spec, self._state, standings)
        target = torch.zeros_like(base, dtype=torch.float64)
        for one, weight in zip(usable, weights, strict=True):
            target += weight * one.values.double()
        return target, weights
