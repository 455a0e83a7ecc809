"""A SuperNode's connection, in this process. What a server sends is data: no app of its is fetched or run."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Message
from flwr.app.message import make_message, remove_content_from_message
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
    RegisterNodeFleetRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedRequest,
    ObjectTree,
    PullObjectRequest,
    PushObjectRequest,
)
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from hanse.runtime.flower.private.chunks import most_objects
from hanse.runtime.flower.private.guard import count_objects
from hanse.runtime.flower.private.identity import name_message

T = TypeVar("T")
HEARTBEAT_S = 10.0
"""Flower's shortest; a node that misses two is away."""
PARTS_S, _PART_POLL_S = 60.0, 0.05
"""How long a message's parts may take to be there once it is shown, and seconds between looks."""
_NOT_TLS = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}
"""How OpenSSL calls an answer in clear."""
_PROBE_S = 5.0
_CLOSED = {401, 403, 409, 412}
"""HTTP codes by which a server that works does not let a node in."""


class LostError(Exception):
    """The server does not answer, or not as one of this version; trying again may help.

    `status`: of HTTP, where there was one.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class TurnedAwayError(Exception):
    """The server is not the one that the certificate is for, or does not let this node in."""


class OtherTransportError(Exception):
    """One end encrypts and the other does not."""


class Connection:
    """An activated node. Close it, or use it within `contextlib.closing`.

    `authority`: the certificate, PEM, that the server's must be signed by; None: no TLS. `known`: whether the
    server knows the key already; if not, the node registers it. Raises LostError, TurnedAwayError and
    OtherTransportError.
    """

    def __init__(
        self,
        address: str,
        authority: bytes | None,
        key: ec.EllipticCurvePrivateKey,
        *,
        known: bool,
        max_bytes: int,
    ) -> None:
        self._most, self._address, self._encrypts = most_objects(max_bytes), address, authority is not None
        signing = NodeAuthHttpInterceptor(key, key.public_key())
        self._client = FleetHttpClient.from_server_address(
            address, authority is None, authority, [RuntimeVersionHttpInterceptor("SuperNode"), signing]
        )
        self.node = Node(node_id=self._activated(public_key_to_bytes(key.public_key()), known))
        self._over = threading.Event()
        self._beating = threading.Thread(target=self._beat, daemon=True)
        self._beating.start()

    def _activated(self, public: bytes, known: bool) -> int:
        """Be let in, and get the node's id."""
        try:
            if not known:
                self._call(self._client.RegisterNode, RegisterNodeFleetRequest(public_key=public))
            asked = ActivateNodeRequest(public_key=public, heartbeat_interval=HEARTBEAT_S)
            return int(self._call(self._client.ActivateNode, asked).node_id)
        except (LostError, TurnedAwayError, OtherTransportError) as error:
            self._client.close()
            if isinstance(error, LostError) and error.status in _CLOSED:
                raise TurnedAwayError(f"HTTP {error.status}") from error
            raise

    def receive(self) -> Message | None:
        """The next message, if there is one."""
        response = self._call(self._client.PullMessages, PullMessagesRequest(node=self.node))
        if not response.messages_list:
            return None
        bare, tree = message_from_proto(response.messages_list[0]), response.message_object_trees[0]
        run_id, name = bare.metadata.run_id, bare.metadata.message_id
        whole = self._whole(run_id, tree)
        done = ConfirmMessageReceivedRequest(node=self.node, run_id=run_id, message_object_id=name)
        self._call(self._client.ConfirmMessageReceived, done)
        message = make_message(bare.metadata, content=whole.content)
        name_message(message, name)
        return message

    def _whole(self, run_id: int, tree: ObjectTree) -> Message:
        if count_objects(tree, self._most) > self._most:
            raise LostError("the server sends more than any honest message has")
        end = time.monotonic() + PARTS_S
        contents = {
            part.object_id: self._part(run_id, part.object_id, end) for part in iterate_object_tree(tree)
        }
        try:
            found = inflate_object_from_contents(tree.object_id, contents)
        except Exception as error:
            raise LostError(f"the server sends what is no message ({type(error).__name__})") from error
        if not isinstance(found, Message) or not found.has_content():
            raise LostError("the server sends what is no message")
        return found

    def _part(self, run_id: int, name: str, end: float) -> bytes:
        """One part of a message. The server shows a message before it has taken in all parts of it."""
        asked = PullObjectRequest(node=self.node, run_id=run_id, object_id=name)
        while True:
            found = self._call(self._client.PullObject, asked)
            if found.object_available:
                return bytes(found.object_content)
            if not found.object_found or time.monotonic() > end:
                raise LostError("a part of the server's message is missing")
            self._over.wait(_PART_POLL_S)

    def send(self, reply: Message) -> None:
        """Send a reply, whole."""
        with no_object_id_recompute():
            name_message(reply, reply.object_id)
            objects, tree = get_all_nested_objects(reply), get_object_tree(reply)
            asked = PushMessagesRequest(
                node=self.node,
                messages_list=[message_to_proto(remove_content_from_message(reply))],
                message_object_trees=[tree],
                clientapp_runtime_list=[0.0],
            )
            response = self._call(self._client.PushMessages, asked)
            for name in response.objects_to_push:
                self._push(reply.metadata.run_id, response.session_id, name, objects[name].deflate())

    def _push(self, run_id: int, session: str, name: str, content: bytes) -> None:
        asked = PushObjectRequest(
            node=self.node, run_id=run_id, session_id=session, object_id=name, object_content=content
        )
        self._call(self._client.PushObject, asked)

    def _beat(self) -> None:
        """Tell the server that this node is there. A failure shows in the next call for messages too."""
        asked = SendNodeHeartbeatRequest(node=self.node, heartbeat_interval=HEARTBEAT_S)
        while not self._over.wait(HEARTBEAT_S * 0.5):
            try:
                self._client.SendNodeHeartbeat(asked)
            except (httpx.HTTPError, RuntimeError):
                continue

    def _call(self, method: Callable[..., T], request: object) -> T:
        try:
            return method(request)
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            raise LostError(f"HTTP {status}", status) from error
        except httpx.HTTPError as error:
            if _distrusted(error):
                raise TurnedAwayError(str(error)) from error
            if why := self._mismatched(error):
                raise OtherTransportError(why) from error
            raise LostError(str(error) or type(error).__name__) from error
        except RuntimeError as error:
            raise LostError(str(error)) from error

    def _mismatched(self, error: httpx.HTTPError) -> str:
        """Why the two ends cannot talk, where one encrypts and the other does not; else nothing."""
        if self._encrypts:
            return "it does not encrypt, and this client does" if _in_clear(error) else ""
        broken = isinstance(error, httpx.RemoteProtocolError) and encrypts(self._address)
        return "it encrypts, and this client does not" if broken else ""

    def close(self) -> None:
        self._over.set()
        with suppress(httpx.HTTPError, RuntimeError):
            self._client.DeactivateNode(DeactivateNodeRequest(node_id=self.node.node_id))
        self._client.close()


def encrypts(address: str) -> bool:
    """Whether what listens there answers the beginning of TLS, with whatever certificate."""
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _PROBE_S) as plain:
            context.wrap_socket(plain).close()
    except (OSError, ValueError):
        return False
    return True


def _distrusted(error: BaseException) -> bool:
    """Whether it comes of a certificate that the authority does not vouch for."""
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _causes(error))


def _in_clear(error: BaseException) -> bool:
    """Whether TLS was begun with a server that answered in clear."""
    return any(isinstance(cause, ssl.SSLError) and cause.reason in _NOT_TLS for cause in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
