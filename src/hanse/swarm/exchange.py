"""The seam: how bytes get from every node to every other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Exchange(Protocol):
    """Publish, then gather. A topic is one phase of one round; what a node publishes twice counts once."""

    def publish(self, topic: str, node: int, data: bytes) -> None: ...

    def gather(self, topic: str) -> Mapping[int, bytes]:
        """What has been published, by node: of all of them, or at the deadline of as many as there are.

        Raises QuorumError where those are too few.
        """
        ...

    def close(self, topic: str) -> None:
        """The round is over: forget what was said."""
        ...


class LocalExchange:
    """All nodes in this process: nobody is late."""

    def __init__(self) -> None:
        self._said: dict[str, dict[int, bytes]] = {}

    def publish(self, topic: str, node: int, data: bytes) -> None:
        self._said.setdefault(topic, {}).setdefault(node, data)

    def gather(self, topic: str) -> Mapping[int, bytes]:
        return dict(sorted(self._said.get(topic, {}).items()))

    def close(self, topic: str) -> None:
        self._said.pop(topic, None)
