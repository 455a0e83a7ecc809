"""Where clients run, and how long a server waits for whom."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from hanse.recipe.section import Section

DEADLINE_S = 3600.0
"""Seconds that a server waits for answers from other machines where the recipe says nothing."""

MOST_STALE = 16
"""Rounds that a late upload may be late: the server holds a base for each."""


class RuntimeSpec(Section):
    """Where clients run: "local" (in turn, or with `workers` > 1 side by side in processes),
    "flower-simulation" (Flower's simulation engine, `workers` clients at a time), or "flower" (each on its
    owner's machine).

    `threads`: of torch, for each client. `quorum`: how many clients, or which share of a round's, must send a
    usable upload; `patience`: how often in a row it may be missed before the run ends, the round being asked
    for again until then. `deadline_s`: of one exchange. `over_select`: how many more clients are drawn than
    `federation.participation` says; the first to answer count.

    `late`: what becomes of uploads that come after their round: "discard", or "weigh" them in a later one, s
    rounds late, with (1 + s)^-`staleness` of their weight (FedAsync), up to `stale_rounds` rounds late.
    """

    type: Literal["local", "flower-simulation", "flower"] = "local"
    workers: int = Field(default=1, ge=1)
    threads: int = Field(default=1, ge=1)
    quorum: Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, le=1)] = 1
    patience: int = Field(default=1, ge=1)
    deadline_s: float | None = Field(default=None, gt=0)
    over_select: int = Field(default=0, ge=0)
    late: Literal["discard", "weigh"] = "discard"
    staleness: float = Field(default=0.5, ge=0, le=10)
    stale_rounds: int = Field(default=2, ge=1, le=MOST_STALE)

    @property
    def elsewhere(self) -> bool:
        """Whether clients are reached through Flower."""
        return self.type != "local"

    @property
    def weighs_late(self) -> bool:
        """Whether late uploads count for something."""
        return self.late == "weigh"

    @property
    def deadline_in_force(self) -> float:
        """Seconds; without end where clients are in this process or its children."""
        if not self.elsewhere:
            return math.inf
        return DEADLINE_S if self.deadline_s is None else self.deadline_s

    def needed(self, wanted: int) -> int:
        """Usable uploads without which a round of `wanted` clients does not count."""
        if isinstance(self.quorum, int):
            return min(self.quorum, wanted)
        return max(1, math.ceil(self.quorum * wanted - 1e-9))
