"""The problems of a round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hanse.randomness import generator
from hanse.swarm.assignment import Assignment, horizontal, vertical


def drawn(ids: Sequence[str], count: int, *seed: int | str) -> list[str]:
    """`count` different problems, or all of them where there are fewer."""
    chosen = generator("swarm-draw", *seed).choice(len(ids), min(count, len(ids)), replace=False)
    return [ids[i] for i in chosen.tolist()]


def assign(
    topology: str,
    beacon: str,
    ids: Sequence[str],
    prompts: int,
    group_size: int,
    nodes: Sequence[int],
    chosen: Mapping[int, Sequence[str]] | None = None,
) -> Assignment:
    """Who answers what. `chosen`: the problems of nodes that choose by themselves (vertical)."""
    if chosen is not None:
        due = {node: drawn(ids, prompts // len(nodes), beacon, node) for node in chosen}
        return vertical(beacon, chosen, group_size, due)
    problems = drawn(ids, prompts, beacon)
    if topology == "horizontal":
        return horizontal(beacon, problems, group_size, nodes)
    each = len(problems) // len(nodes)
    owned = {node: problems[i * each : (i + 1) * each] for i, node in enumerate(nodes)}
    return vertical(beacon, owned, group_size)
