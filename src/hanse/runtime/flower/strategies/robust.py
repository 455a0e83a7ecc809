"""Updates combined by a rule that withstands liars."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from torch import Tensor

from hanse.federation.robust.combining import Memory, RobustCombination, Updates
from hanse.recipe.federation import FederationSpec
from hanse.recipe.robust import RobustName, RobustSpec
from hanse.runtime.flower.strategies.base import HanseStrategy, Usable


class HanseRobust(HanseStrategy):
    """One of our robust rules, by its name in a recipe, against `byzantine` liars; `mixing` and `bucket` as
    in `[federation.robust]`. "fltrust" is not offered: it needs a server with problems of its own.

    Too few usable replies for the rule are a missed quorum.
    """

    def __init__(
        self,
        rule: RobustName = "geometric-median",
        *,
        byzantine: int = 1,
        mixing: Literal["none", "nearest", "bucketing"] = "none",
        bucket: int = 2,
        **more: Any,
    ) -> None:
        if rule in ("none", "fltrust"):
            raise ValueError(f"rule {rule!r} is not offered; choose another robust rule")
        spec = RobustSpec(rule=rule, byzantine=byzantine, mixing=mixing, bucket=bucket)
        super().__init__(**{**more, "quorum": max(more.get("quorum", 1), spec.fewest(byzantine))})
        self._rule = RobustCombination(FederationSpec(weighting="uniform", robust=spec), self.seed)
        self._byzantine, self._memory = byzantine, dict[str, Tensor]()

    def combine(self, round: int, base: Tensor, usable: Sequence[Usable]) -> tuple[Tensor, list[float]]:
        updates = Updates(base, [partial(_values, one) for one in usable], [])
        weights = [1.0 / len(usable)] * len(usable)
        memory: Memory = self._memory
        settled = self._rule.settle(round, memory, updates, weights, self._byzantine, _no_pairs)
        self._memory = dict(settled.memory)
        return settled.combined.target.double(), settled.coefficients_C


def _values(one: Usable) -> Tensor:
    return one.values


def _no_pairs(pair: object) -> Tensor:
    raise AssertionError("arrays of a strategy have no LoRA pairs")
