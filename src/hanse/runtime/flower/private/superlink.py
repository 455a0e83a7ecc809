"""A SuperLink in this process: nodes reach its Fleet API over HTTP, and nothing else of it.

Flower's own serves control and runtime APIs on the same port, by which anybody may register a node or start
a run; they are not mounted here. No database, no child process: when this process ends, all of it has.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from logging import CRITICAL, getLogger
from socket import socket

import uvicorn
from fastapi import FastAPI
from flwr.app import Message, RecordDict
from flwr.app.message import make_message, remove_content_from_message
from flwr.common.constant import NOOP_ACCOUNT_NAME, NOOP_FLWR_AID, Status
from flwr.proto.message_pb2 import ObjectTree
from flwr.proto.task_pb2 import TaskStatus
from flwr.server.superlink.linkstate import InMemoryLinkState, LinkStateFactory
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, NOOP_FEDERATION_ID, TaskType
from flwr.supercore.error import http_error_translator
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.object_store import NoObjectInStoreError, ObjectStoreFactory
from flwr.supercore.protobuf.translation import ProtobufTranslationMiddleware
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.routers.fleet.node_auth import NodeAuthMiddleware
from flwr.superlink.routers.fleet.router import router
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware

from hanse.runtime.flower.private.grid import OwnGrid
from hanse.runtime.flower.private.guard import BodyLimit, Guard
from hanse.runtime.flower.private.identity import NodeInfo, act_as, name_message

_STOP_S = 5.0


class LinkState(InMemoryLinkState):
    """Flower's, but a node that comes again is let in at once: its key proves that the one before is gone."""

    def activate_node(self, node_id: int, heartbeat_interval: float) -> bool:
        with self.lock:
            self.deactivate_node(node_id)
            return super().activate_node(node_id, heartbeat_interval)


class SuperLink:
    """Serves nodes on a listening socket until `close`. `keys`: public keys in PEM by which nodes are let in;
    None: any node is. `certificate`: paths of certificate and private key; None: no TLS."""

    def __init__(
        self, listening: socket, keys: Iterable[bytes] | None, certificate: tuple[str, str] | None
    ) -> None:
        for name in ("flwr", "uvicorn", "httpx"):
            getLogger(name).setLevel(CRITICAL)  # what others send is counted, not logged
        self._factory = LinkStateFactory(
            FLWR_IN_MEMORY_DB_NAME, NoOpFederationManager(), ObjectStoreFactory()
        )
        self.state = LinkState(self._factory.federation_manager, self._factory.objectstore_factory.store())
        self._factory.state_instance = self.state
        self.nodes = [self._register(key) for key in keys or ()]
        self.guard = Guard()
        self.grid = LinkGrid(self.state)
        config = uvicorn.Config(
            self._app(closed=keys is not None),
            log_config=None,
            access_log=False,
            ws="none",
            timeout_graceful_shutdown=1,
            ssl_certfile=None if certificate is None else certificate[0],
            ssl_keyfile=None if certificate is None else certificate[1],
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([listening],), daemon=True)
        self._thread.start()

    def _register(self, key: bytes) -> int:
        return self.state.create_node(NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, key, 0)

    def _app(self, *, closed: bool) -> FastAPI:
        app = FastAPI(
            docs_url=None,
            redoc_url=None,
            openapi_url=None,
            middleware=[
                Middleware(BodyLimit),
                Middleware(BaseHTTPMiddleware, dispatch=http_error_translator),
                Middleware(ProtobufTranslationMiddleware),
                Middleware(NodeAuthMiddleware),
                Middleware(BaseHTTPMiddleware, dispatch=self.guard.check),
            ],
        )
        app.state.linkstate_factory = self._factory
        app.state.enable_supernode_auth = closed
        app.include_router(router)
        return app

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(_STOP_S)
        self._server.force_exit = True


class LinkGrid(OwnGrid):
    """A Grid on the SuperLink's own state. Replies are handed out when all of their parts have arrived."""

    def __init__(self, state: LinkState) -> None:
        self.state = state
        run_id = state.create_run(
            None, None, None, {}, NOOP_FEDERATION_ID, None, NOOP_FLWR_AID, TaskType.SERVER_APP
        )
        super().__init__(state.get_run_info(run_ids=[run_id])[0])
        task = state.task_store[self._run.primary_task_id or 0]
        task.status.CopyFrom(TaskStatus(status=Status.RUNNING, sub_status="", details=""))
        self._arriving: dict[str, Message] = {}
        act_as(run_id)

    def get_node_ids(self) -> list[int]:
        return sorted(self.state.get_nodes(self._run.run_id))

    def get_nodes(self) -> list[NodeInfo]:
        return list(self.state.get_node_info(node_ids=self.get_node_ids()))

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        with no_object_id_recompute():
            return [self._push(message) for message in messages]

    def _push(self, message: Message) -> str:
        """The message's id; empty where its node is unknown."""
        name_message(message, message.object_id)
        session = self.state.start_session(self._run.run_id)
        bare, tree = remove_content_from_message(message), get_object_tree(message)
        stored, missing = self.state.store_message_and_object_tree(bare, tree, session)
        if not stored:
            return ""
        objects = get_all_nested_objects(message)
        for name in missing:
            self.state.store_object(self._run.run_id, session, name, objects[name].deflate())
        return message.metadata.message_id

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        asked = set(message_ids)
        # a reply that is on its way stays what it is, even where its node goes away in the meantime
        known = {name for name in asked - set(self._arriving) if name in self.state.message_ins_store}
        replies = []
        for reply in self.state.get_message_res(known, self._run.run_id) if known else ():
            if reply.has_error() and not self._tree(reply):
                replies.append(reply)  # Flower's own: a node that is away, a message that is too old
            else:
                self._arriving[reply.metadata.reply_to_message_id] = reply
        return replies + [whole for name in sorted(asked) if (whole := self._arrived(name)) is not None]

    def _tree(self, reply: Message) -> ObjectTree | None:
        try:
            return self.state.object_store.get_object_tree(reply.metadata.message_id)
        except NoObjectInStoreError:
            return None

    def _arrived(self, asked: str) -> Message | None:
        """The reply with its content, once it is whole. What cannot be put together again has none."""
        reply = self._arriving.get(asked)
        if reply is None:
            return None
        tree = self._tree(reply)
        names = [] if tree is None else [part.object_id for part in iterate_object_tree(tree)]
        found = {name: self.state.get_object(self._run.run_id, name) for name in names}
        if any(content == b"" for content in found.values()):
            return None
        del self._arriving[asked]
        whole = _inflated(reply, {name: content for name, content in found.items() if content})
        self.state.delete_messages(message_ins_ids={asked})
        self.state.object_store.delete(reply.metadata.message_id)
        return whole

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        raise NotImplementedError("push and pull: waiting is the caller's business")


def _inflated(reply: Message, contents: dict[str, bytes]) -> Message:
    """The reply's metadata as the SuperLink checked them, with the content that the node sent."""
    nothing = make_message(reply.metadata, content=RecordDict())
    try:
        found = inflate_object_from_contents(reply.metadata.message_id, contents)
    except Exception:  # noqa: BLE001 - a node may send anything
        return nothing
    if not isinstance(found, Message):
        return nothing
    if found.has_error():
        return make_message(reply.metadata, error=found.error)
    return make_message(reply.metadata, content=found.content) if found.has_content() else nothing
