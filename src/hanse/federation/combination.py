"""From the uploads of a round that passed the screen to the server's next values: weigh, combine, step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor

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
from hanse.federation.rollouts import smoothed
from hanse.federation.screening import Screened
from hanse.federation.server_optimizer import SERVER_OPTIMIZERS, Agreement
from hanse.federation.signal import mean_reward
from hanse.federation.weighting import Standing, weigh
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
        standings = [Standing(s.client, s.upload.signal, s.norm) for s in good if s.upload is not None]
        return cls(base, standings, values, vectors)


@dataclass(frozen=True)
class Combination:
    """The recipe's rules for a federation of `clients` members; the state is the server's."""

    spec: FederationSpec
    layout: Layout
    clients: int
    seed: int = 0
    scaling: float = 1.0

    def step(self, state: ServerState, gathered: Gathered) -> tuple[dict[int, float], float | None]:
        """Takes the state to the round's end. Returns the weights by client, and `Combined.residual`."""
        standings = gathered.standings_C
        weights, state.weighting = weigh(self.spec, state.weighting, standings)
        combined = self._combined(state.round, gathered, weights)
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
        """Takes the server optimiser's step towards `target`, float64, and notes the clients' signals."""
        agreement = Agreement(state.master, base, target, self.layout.sizes())
        optimizer = SERVER_OPTIMIZERS[self.spec.optimizer]
        state.master, state.optimizer = optimizer(self.spec.server, state.optimizer, agreement)
        state.informative = smoothed(state.informative, {s.client: s.signal for s in standings_C})
        state.reward_mean = mean_reward([s.signal for s in standings_C])
        return agreement

    def _combined(self, round: int, gathered: Gathered, weights_C: Sequence[float]) -> Combined:
        rule, pairs = lora_rule(self.spec.aggregation), pairs_of(self.layout)
        fresh = partial(fresh_factor, self.seed, round)
        contributions = self._contributions(gathered, weights_C)
        return combine(rule, AGGREGATORS[self.spec.aggregation], pairs, gathered.base, contributions, fresh)

    def _contributions(self, gathered: Gathered, weights_C: Sequence[float]) -> Iterator[Contribution]:
        factors_C = scales(self.spec, weights_C, gathered.standings_C)
        for weight, scale, standing in zip(weights_C, factors_C, gathered.standings_C, strict=True):
            yield Contribution(weight, gathered.values(standing.client), scale)
