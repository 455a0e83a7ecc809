"""The chain of defences: each looks at what those before it have left."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hanse.policy.readings import EDGE, Readings
from hanse.recipe.swarm import DefenceSpec, Reject, ReplayDefence, SwarmSpec, TopKDefence
from hanse.recipe.swarm_defaults import COARSE as COARSE
from hanse.recipe.swarm_defaults import defences_in_force
from hanse.swarm.accounting import Standing
from hanse.swarm.defences import DEFENCES, ON_REJECT
from hanse.swarm.defences.base import Finding, View

_STANDINGS: Mapping[Reject, Standing] = {
    "zero": Standing.ZERO,
    "mask": Standing.MASKED,
    "drop": Standing.DROPPED,
    "quarantine": Standing.DROPPED,
}


def build_chain(spec: SwarmSpec, *, worked_sums: bool = False, exact: bool = True) -> Chain:
    """The chain of a recipe (see `defences_in_force`)."""
    return Chain(defences_in_force(spec, worked_sums=worked_sums, exact=exact))


@dataclass(frozen=True)
class Inspection:
    """What a chain says of N deliveries. `standing_N`: of `Standing`. `rejected_by_N`: the defence, or None.
    `scores`: by defence, shape (N,), NaN where it was not asked. `seconds`: by defence, without the forward
    pass that all share. `memory`: by defence, plain JSON, for the next round."""

    standing_N: Tensor
    rejected_by_N: list[str | None]
    scores: Mapping[str, Tensor]
    seconds: Mapping[str, float]
    forward_seconds: float
    figures: Mapping[str, float]
    memory: dict[str, Any]

    @property
    def counts(self) -> dict[str, int]:
        """How many each defence rejected, those of quarantined nodes included."""
        return dict(Counter(name for name in self.rejected_by_N if name is not None))

    def among(self, places: Sequence[int], size: int) -> Inspection:
        """Of `size` completions, of which those in `places` were inspected; the others are accepted."""
        rejected: list[str | None] = [None] * size
        for place, name in zip(places, self.rejected_by_N, strict=True):
            rejected[place] = name
        index = torch.tensor(list(places), dtype=torch.int64)

        def spread(values_N: Tensor, empty: float) -> Tensor:
            return values_N.new_full((size,), empty).index_put((index,), values_N)

        scores = {name: spread(score, torch.nan) for name, score in self.scores.items()}
        standing = spread(self.standing_N, Standing.ACCEPTED)
        return replace(self, standing_N=standing, rejected_by_N=rejected, scores=scores)


class Chain:
    """Defences in the given order. `names`: the recipe's, numbered where one stands there twice.

    >>> inspection = Chain([LengthDefence(), ReplayDefence()]).inspect(view, memory)
    """

    def __init__(self, specs: Sequence[DefenceSpec]) -> None:
        self.specs = list(specs)
        seen: Counter[str] = Counter()
        self.names = []
        for spec in self.specs:
            seen[spec.type] += 1
            self.names.append(spec.type if seen[spec.type] == 1 else f"{spec.type}-{seen[spec.type]}")

    @property
    def top_k(self) -> int | None:
        """What `read_completions` is to measure margins against; None: the sampler's."""
        return next((spec.k for spec in self.specs if isinstance(spec, TopKDefence)), None)

    @property
    def edge(self) -> float:
        """What rounding may do at the sampler's cut, for `read_completions`."""
        return max([EDGE, *(spec.tolerance for spec in self.specs if isinstance(spec, ReplayDefence))])

    def inspect(self, view: View, memory: Mapping[str, Any]) -> Inspection:
        """All defences on a round's deliveries. `memory`: what the last round left behind, by defence."""
        forward = _Timed(view.read)
        state = _State(view)
        kept: dict[str, Any] = {}
        for name, spec in zip(self.names, self.specs, strict=True):
            mine = replace(view, read=forward, memory=memory.get(name, {}))
            before, begun = forward.seconds, time.perf_counter()
            finding = DEFENCES[spec.type](spec, mine, state.accepted_N.clone())
            spent = time.perf_counter() - begun - (forward.seconds - before)
            state.take(name, finding, spec.on_reject or ON_REJECT.get(spec.type, "drop"), spent)
            if finding.memory:
                kept[name] = dict(finding.memory)
        return state.result(forward.seconds, kept)


class _Timed:
    """One forward pass, however many ask, and how long it took."""

    def __init__(self, read: Callable[[], Readings]) -> None:
        self._read = read
        self._made: Readings | None = None
        self.seconds = 0.0

    def __call__(self) -> Readings:
        if self._made is None:
            begun = time.perf_counter()
            self._made = self._read()
            self.seconds = time.perf_counter() - begun
        return self._made


class _State:
    """Standings as they stand after the defences so far."""

    def __init__(self, view: View) -> None:
        self._node_N = view.node_N
        self.standing_N = torch.full((view.size,), int(Standing.ACCEPTED), dtype=torch.int64)
        self.rejected_by: list[str | None] = [None] * view.size
        self.scores: dict[str, Tensor] = {}
        self.seconds: dict[str, float] = {}
        self.figures: dict[str, float] = {}

    @property
    def accepted_N(self) -> Tensor:
        return self.standing_N == Standing.ACCEPTED

    def take(self, name: str, finding: Finding, on_reject: Reject, seconds: float) -> None:
        accepted = self.accepted_N
        hit = finding.rejected_N & accepted
        if on_reject == "quarantine":
            hit = torch.isin(self._node_N, self._node_N[hit])
        standing = torch.full_like(self.standing_N, int(_STANDINGS[on_reject]))
        self.standing_N = torch.where(hit, torch.maximum(self.standing_N, standing), self.standing_N)
        for i in (hit & accepted).nonzero().squeeze(1).tolist():
            self.rejected_by[i] = name
        self.scores[name] = finding.score_N.float().masked_fill(~accepted, torch.nan)
        self.seconds[name] = seconds
        self.figures |= {f"{name}/{key}": value for key, value in finding.figures.items()}

    def result(self, forward: float, memory: dict[str, Any]) -> Inspection:
        return Inspection(
            self.standing_N, self.rejected_by, self.scores, self.seconds, forward, self.figures, memory
        )
