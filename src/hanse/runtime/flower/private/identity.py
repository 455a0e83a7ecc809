"""Who this process is to Flower: it builds no message without that, and leaves setting it to its own apps."""

from __future__ import annotations

from flwr.app import Message
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

__all__ = ["SUPERLINK_NODE_ID", "NodeInfo", "Run", "act_as", "name_message"]


def act_as(run_id: int, node_id: int = SUPERLINK_NODE_ID, task_id: int = 1) -> None:
    """Messages made from now on come from this node, by default a server, in this run."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = run_id, node_id, task_id


def name_message(message: Message, name: str) -> None:
    """Give a message the id that a SuperLink would."""
    message.metadata.__dict__["_message_id"] = name
