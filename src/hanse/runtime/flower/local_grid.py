"""Flower's Grid in this process: no SuperLink, no Ray. For tests, and for trying a strategy out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode

from hanse.runtime.flower.private import identity
from hanse.runtime.flower.private.grid import OwnGrid

Fate = Callable[[Message], bool]


class LocalGrid(OwnGrid):
    """Nodes 1001, 1002, … that each run a ClientApp; messages are answered when replies are asked for.

    `config`: of a node by its number from 0, beside Flower's own keys. A node in `away` is offline; a message
    for which `held(message)` is true is not delivered yet.
    """

    FIRST = 1001

    def __init__(
        self, apps: Sequence[ClientApp], config: Callable[[int], dict[str, str | int]] | None = None
    ) -> None:
        super().__init__(identity.Run.create_empty(run_id=1))
        identity.act_as(1)
        self.apps = {self.FIRST + i: app for i, app in enumerate(apps)}
        self.contexts = {node: self._context(i, node, len(apps), config) for i, node in enumerate(self.apps)}
        self._lives = dict.fromkeys(self.apps, 1)
        self.away: set[int] = set()
        self.held: Fate = lambda message: False
        self.log: list[tuple[Message, Message]] = []
        self._queue: deque[Message] = deque()
        self._replies: dict[str, Message] = {}

    def _context(
        self, number: int, node: int, nodes: int, config: Callable[[int], dict[str, str | int]] | None
    ) -> Context:
        own = {"partition-id": number, "num-partitions": nodes, **(config(number) if config else {})}
        return Context(run_id=1, node_id=node, node_config=dict(own), state=RecordDict(), run_config={})

    def get_node_ids(self) -> list[int]:
        return [node for node in self.apps if node not in self.away]

    def get_nodes(self) -> list[identity.NodeInfo]:
        return [
            identity.NodeInfo(node_id=node, last_activated_at=str(self._lives[node]))
            for node in self.get_node_ids()
        ]

    def restart(self, node: int) -> None:
        """The node's process has died and come back: what it had been sent is lost."""
        self._lives[node] += 1
        self._queue = deque(m for m in self._queue if m.metadata.dst_node_id != node)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        names = []
        for message in messages:
            identity.name_message(message, uuid4().hex)
            self._queue.append(message)
            names.append(message.metadata.message_id)
        return names

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        self._work()
        return [self._replies.pop(name) for name in list(message_ids) if name in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        return self.pull_messages(self.push_messages(messages))

    def _work(self) -> None:
        waiting, self._queue = self._queue, deque()
        stuck = set(self.away)  # a node takes its messages in their order
        for message in waiting:
            node = message.metadata.dst_node_id
            if node in stuck or self.held(message):
                stuck.add(node)
                self._queue.append(message)
                continue
            reply = self._run_app(message)
            identity.name_message(reply, uuid4().hex)
            self.log.append((message, reply))
            self._replies[message.metadata.message_id] = reply

    def _run_app(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        try:
            return self.apps[node](message, self.contexts[node])
        except Exception as error:  # noqa: BLE001 - a failing app is an error reply, as on any grid
            reason = type(error).__name__
            return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason), reply_to=message)
