"""A server whose clients of a round are drawn by group, and which learns the groups from their updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from hanse.federation.server import Server
from hanse.recipe.federation import FederationSpec, WeightsSpec
from hanse.reward_model.groups import Array


class DrawnServer(Server):
    """The federation's server, told before each round who takes part and how often each one counts.

    `updates`: of the last round that was combined, each usable client's change of the entries `watched`.
    """

    def __init__(self, spec: FederationSpec, *arguments: Any, watched: slice, **settings: Any) -> None:
        everybody = spec.model_copy(update={"participation": 1.0})
        super().__init__(everybody, *arguments, **settings)
        self.watched = watched
        self.updates: dict[int, Array] = {}

    def invite(self, weights: Mapping[int, float]) -> None:
        """The clients of the next round, and how much each one counts; the others have no weight."""
        self.clients = sorted(weights)
        listed = [0.0] * (max(weights, default=-1) + 1)
        for client, weight in weights.items():
            listed[client] = weight
        changes = {"weighting": "fixed", "weights": WeightsSpec(fixed=listed)}
        self._combination = replace(self._combination, spec=self.spec.model_copy(update=changes))

    def _combined(
        self, opened: Any, good: Any, uploads: Mapping[int, bytes], refused: int
    ) -> tuple[dict[int, float], float | None]:
        base = self._watched(opened.base)
        self.updates = {
            s.client: self._watched(opened.screen.values(s, uploads[s.client])) - base for s in good
        }
        return super()._combined(opened, good, uploads, refused)

    def _watched(self, values: Tensor) -> Array:
        watched: Array = values[self.watched].double().numpy()
        return watched


def drawn_weights(counts: Mapping[int, int], sizes: Sequence[int], weighting: str) -> dict[int, float]:
    """How much each drawn client counts: its slots, times its pairs where weights go by samples."""
    return {k: float(n * (sizes[k] if weighting == "samples" else 1)) for k, n in counts.items()}
