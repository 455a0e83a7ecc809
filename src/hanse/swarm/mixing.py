"""Own and foreign groups in one batch (SAPO, 2509.08721): I of the node's own, J of the others'."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from hanse.randomness import generator
from hanse.recipe.swarm import SwarmSpec
from hanse.swarm.collect import Written


def mixed(
    spec: SwarmSpec,
    names_P: Sequence[str],
    advantages_PG: Tensor,
    written: Sequence[Written],
    own: int | None,
    seed: int,
    beacon: str,
) -> list[int] | None:
    """Indices of the groups to train on: all of the node's own and `external` of the others, drawn from all
    of them or from those with a signal. None: all groups."""
    if spec.external is None:
        return None
    mine = {w.problem for w in written if w.delivery is not None and w.delivery.node == own}
    first = [i for i, name in enumerate(names_P) if name in mine]
    useful = (advantages_PG != 0).any(-1).tolist()
    pool = [
        i
        for i, name in enumerate(names_P)
        if name not in mine and (spec.external_sampling == "uniform" or useful[i])
    ]
    count = min(spec.external, len(pool))
    drawn = generator("mixing", seed, beacon, own or 0).permutation(len(pool))[:count]
    return first + sorted(pool[i] for i in drawn.tolist())
