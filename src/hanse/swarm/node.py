"""A node: speaks for itself, thinks with its replica."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hanse.swarm.assignment import Assignment
from hanse.swarm.commit import Commit
from hanse.swarm.delivery import Bundle
from hanse.swarm.exchange import Exchange
from hanse.swarm.replica import Outcome, Replica


class Node:
    """An honest participant."""

    lies = False

    def __init__(self, id: int, replica: Replica) -> None:
        self.id, self.replica = id, replica

    def commit(self, round: int) -> bytes:
        """First: which policy it holds."""
        return Commit(round, self.id, self.replica.digest).to_bytes()

    def assignment(self, beacon: str) -> Assignment:
        """What this node is to write; where it may choose, what it has chosen."""
        if self.replica.swarm.prompts == "assigned":
            return self.replica.assignment(beacon)
        return self.replica.assignment(beacon, {self.id: self.replica.choose(beacon, self.id)})

    def hear(self, said: Mapping[int, bytes]) -> None:
        """What all nodes have sent in the round that just ended."""

    def deliver(self, round: int, beacon: str) -> bytes:
        """Second: its completions."""
        made = self.replica.deliveries(self.assignment(beacon), self.id)
        return Bundle(round, self.id, tuple(made)).to_bytes()


def run_round(nodes: Sequence[Node], exchange: Exchange, round: int) -> tuple[dict[int, Outcome], int]:
    """One round of the nodes of this process, and the bytes that they have sent.

    An outcome for the first node of every replica: the others of it have the same.
    """
    first = f"{round}/commit"
    for node in nodes:
        exchange.publish(first, node.id, node.commit(round))
    committed = exchange.gather(first)
    second, sent = f"{round}/bundle", 0
    beacons = {id(n.replica): n.replica.beacon(round, committed) for n in nodes}
    _write_together(nodes, beacons)
    for node in nodes:
        data = node.deliver(round, beacons[id(node.replica)])
        sent += len(data)
        exchange.publish(second, node.id, data)
    said = exchange.gather(second)
    outcomes = _learn(nodes, beacons, round, said)
    exchange.close(first)
    exchange.close(second)
    return outcomes, sent + sum(map(len, committed.values()))


def _write_together(nodes: Sequence[Node], beacons: Mapping[int, str]) -> None:
    """Honest nodes of one replica sample in one batch: the draws are the same, and it costs less."""
    shared: dict[int, list[Node]] = {}
    for node in nodes:
        if not node.lies:
            shared.setdefault(id(node.replica), []).append(node)
    for key, some in shared.items():
        replica = some[0].replica
        if replica.swarm.prompts == "assigned":
            replica.write(replica.assignment(beacons[key]), [node.id for node in some])


def _learn(
    nodes: Sequence[Node], beacons: Mapping[int, str], round: int, said: Mapping[int, bytes]
) -> dict[int, Outcome]:
    outcomes: dict[int, Outcome] = {}
    done: set[int] = set()
    for node in nodes:
        key = id(node.replica)
        if key not in done:
            done.add(key)
            outcomes[node.id] = node.replica.learn(round, beacons[key], said)
        node.hear(said)
    return outcomes
