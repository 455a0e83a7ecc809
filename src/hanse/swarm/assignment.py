"""Who answers what, and with which random stream: all from the round's beacon, so that nobody can choose."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hanse.randomness import derive_seed


def beacon(before: str, digests: Mapping[int, str]) -> str:
    """The round's beacon: it depends on the last one and on the policies that nodes have committed to, and
    is fixed only then."""
    return hashlib.sha256(json.dumps([before, sorted(digests.items())]).encode()).hexdigest()


def stream_seed(beacon: str, problem: str) -> int:
    """The seed of a problem's random streams; the slot selects one of them."""
    return derive_seed("swarm", beacon, problem)


@dataclass(frozen=True)
class Assignment:
    """The slots of a round: `owners` names the node of every (problem, slot), in order."""

    beacon: str
    owners: Mapping[tuple[str, int], int]

    def of(self, node: int) -> dict[str, list[int]]:
        """A node's slots by problem."""
        return self._by_node.get(node, {})

    def seed(self, problem: str) -> int:
        return stream_seed(self.beacon, problem)

    @cached_property
    def problems(self) -> list[str]:
        return list(dict.fromkeys(problem for problem, _ in self.owners))

    @cached_property
    def _by_node(self) -> dict[int, dict[str, list[int]]]:
        found: dict[int, dict[str, list[int]]] = {}
        for (problem, slot), node in self.owners.items():
            found.setdefault(node, {}).setdefault(problem, []).append(slot)
        return found


def horizontal(beacon: str, problems_P: Sequence[str], group_size: int, nodes: Sequence[int]) -> Assignment:
    """All nodes answer the same problems: group_size / nodes slots each, in order of node."""
    each = group_size // len(nodes)
    owners = {(p, slot): nodes[slot // each] for p in problems_P for slot in range(each * len(nodes))}
    return Assignment(beacon, owners)


def vertical(
    beacon: str,
    problems_by_node: Mapping[int, Sequence[str]],
    group_size: int,
    drawn: Mapping[int, Sequence[str]] | None = None,
) -> Assignment:
    """Each node answers problems of its own, in whole groups.

    A problem that several have chosen belongs to one for which the beacon drew it (`drawn`), so that nobody
    can take what an honest node answers; of equals to the one that the beacon puts first, whatever its id.
    """
    due = {node: set(problems) for node, problems in (drawn or {}).items()}

    def rank(node: int, problem: str) -> tuple[bool, int, int]:
        return problem not in due.get(node, ()), derive_seed("swarm-tie", beacon, problem, node), node

    best: dict[str, tuple[bool, int, int]] = {}
    for node, problems in sorted(problems_by_node.items()):
        for p in problems:
            best[p] = min(rank(node, p), best.get(p, rank(node, p)))
    owners = {(p, slot): best[p][-1] for p in best for slot in range(group_size)}
    return Assignment(beacon, owners)
