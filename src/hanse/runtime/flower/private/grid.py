"""What is the same in every Grid of this process."""

from __future__ import annotations

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from hanse.runtime.flower.private.identity import Run


class OwnGrid(Grid):
    """A Grid of one run. How messages travel is for others to say."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def set_run(self, run: Run) -> None:
        self._run = run

    @property
    def run(self) -> Run:
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)
