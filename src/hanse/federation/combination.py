"""From the uploads of a round that passed the screen to the server's next values: weigh, combine, step."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from hanse.errors import RunError
from hanse.federation.aggregation import (
    AGGREGATORS,
    Combined,
    Contribution,
    combine,
    fresh_factor,
    lora_rule,
    pairs_of,
    scales,
)
from hanse.federation.local import LOCAL_METHODS, Delivered, Vectors, bounded
from hanse.federation.records import ServerState
from hanse.federation.robust import ROBUST
from hanse.federation.robust.combining import RobustCombination, Root, Updates, reads_of
from hanse.federation.rollouts import smoothed
from hanse.federation.screening import Screened
from hanse.federation.server_optimizer import SERVER_OPTIMIZERS, Agreement
from hanse.federation.signal import MAX_REWARD, Signal, mean_reward
from hanse.federation.weighting import Standing, capped, normalised, weigh
from hanse.federation.wire.layout import Layout
from hanse.recipe.federation import FederationSpec


@dataclass(frozen=True)
class Gathered:
    """The usable uploads of a round, in client order: standings, and readers of what travelled.

    `values(k)`: client k's values, shape (numel,), exchange dtype; `vectors(k)`: those of the local method.
    """

    base: Tensor
    standings_C: Sequence[Standing]
    values: Callable[[int], Tensor]
    vectors: Callable[[int], Vectors]

    @classmethod
    def of(
        cls,
        base: Tensor,
        good: Iterable[Screened],
        values: Callable[[int], Tensor],
        vectors: Callable[[int], Vectors],
    ) -> Gathered:
        standings = [
            Standing(s.client, s.upload.signal, s.norm, s.trust, s.staleness, s.freshness)
            for s in good
            if s.upload
        ]
        return cls(base, standings, values, vectors)


@dataclass(frozen=True)
class Combination:
    """The recipe's rules for a federation of `clients` members; the state is the server's. `root`: see
    `robust.combining`; raises RunError where the rule needs one."""

    spec: FederationSpec
    layout: Layout
    clients: int
    seed: int = 0
    scaling: float = 1.0
    root: Root | None = None

    def __post_init__(self) -> None:
        rule = self.spec.robust.rule
        if self.spec.robust.on and ROBUST[rule].anchor == "root" and self.root is None:
            raise RunError(
                f'federation.robust.rule = "{rule}" needs an update of the server\'s own problems.'
            )

    def suffices(self, ledger: Counter[str], usable: int, refused: int) -> bool:
        """Whether so many uploads are enough for the rule's promise; where not, that is counted."""
        robust, liars = self.spec.robust, self._liars(usable, refused)
        if not robust.on or usable >= robust.fewest(liars):
            return True
        needs = f'"{robust.rule}" needs {robust.fewest(liars)} against {liars} more liars'
        ledger[f"round: {usable} usable uploads, {refused} refused; {needs}"] += 1
        return False

    def step(
        self, state: ServerState, gathered: Gathered, refused: int = 0
    ) -> tuple[dict[int, float], float | None]:
        """Takes the state to the round's end. Returns the weights by client, those that took effect, and
        `Combined.residual`. `refused`: how many uploads were, see `_liars`."""
        standings = gathered.standings_C
        granted, state.weighting = weigh(self.spec, state.weighting, standings)
        combined, weights = self._combined(state, gathered, granted, refused)
        if state.offset is not None:
            state.offset = state.offset.grown(
                pairs_of(self.layout),
                combined.lifted,
                self.scaling,
                state.round,
                [s.client for s in standings],
            )
        agreement = self.agree(state, gathered.base, combined.target, standings)
        method = LOCAL_METHODS[self.spec.local]
        if method.absorb is not None:
            extras = (gathered.vectors(s.client) for s in standings)
            delivered = Delivered(extras, weights, self.clients, agreement.update)
            state.local = bounded(method.absorb(state.local, delivered))
        return {s.client: w for s, w in zip(standings, weights, strict=True)}, combined.residual

    def agree(
        self, state: ServerState, base: Tensor, target: Tensor, standings_C: Sequence[Standing]
    ) -> Agreement:
        """Takes the server optimiser's step towards `target`, float64, and notes the signals of those clients
        that trained from this base."""
        agreement = Agreement(state.master, base, target, self.layout.sizes())
        optimizer = SERVER_OPTIMIZERS[self.spec.optimizer]
        state.master, state.optimizer = optimizer(self.spec.server, state.optimizer, agreement)
        now = {s.client: s.signal for s in standings_C if not s.staleness}
        state.informative = smoothed(state.informative, now)
        cap = None if self.spec.weighting in ("samples", "fixed") else self.spec.weights.cap
        state.reward_mean = _global_mean(list(now.values()), cap)
        return agreement

    def _liars(self, usable: int, refused: int) -> int:
        """f, and less than that only where so few uploads do not allow it: then those refused are taken for
        liars found. Where there are enough, an honest client that was refused must not spend a part of f."""
        robust = self.spec.robust
        left = max(0, robust.byzantine - refused)
        return next((f for f in range(robust.byzantine, left, -1) if robust.fewest(f) <= usable), left)

    def _combined(
        self, state: ServerState, gathered: Gathered, weights_C: Sequence[float], refused: int
    ) -> tuple[Combined, Sequence[float]]:
        """What clients agree on, and the weights that took effect."""
        rule, pairs = lora_rule(self.spec.aggregation), pairs_of(self.layout)
        fresh = partial(fresh_factor, self.seed, state.round)
        if not self.spec.robust.on:
            parts, aggregate = self._contributions(gathered, weights_C), AGGREGATORS[self.spec.aggregation]
            return combine(rule, aggregate, pairs, gathered.base, parts, fresh), weights_C
        robust = RobustCombination(self.spec, self.seed, self.root)
        clients = [s.client for s in gathered.standings_C]
        updates = Updates(gathered.base, reads_of(gathered.values, clients), pairs)
        liars = self._liars(len(clients), refused)
        settled = robust.settle(state.round, state.robust, updates, weights_C, liars, fresh)
        state.robust = settled.memory
        return settled.combined, settled.coefficients_C

    def _contributions(self, gathered: Gathered, weights_C: Sequence[float]) -> Iterator[Contribution]:
        factors_C = scales(self.spec, weights_C, gathered.standings_C)
        for weight, scale, standing in zip(weights_C, factors_C, gathered.standings_C, strict=True):
            yield Contribution(weight, gathered.values(standing.client), scale)


def _global_mean(signals_C: Sequence[Signal], cap: float | None) -> float:
    """The mean reward that calibration goes by: by problems, but where weights are capped nobody counts more
    than cap / K here either, as the number of problems is each client's own word."""
    if cap is None or not signals_C:
        return mean_reward(signals_C)
    shares = normalised([float(one.samples) for one in signals_C])
    if max(shares) * len(shares) <= cap:
        return mean_reward(signals_C)
    weights = capped(shares, cap)
    mean = math.fsum(w * one.reward_mean for w, one in zip(weights, signals_C, strict=True))
    return max(-MAX_REWARD, min(MAX_REWARD, mean))
