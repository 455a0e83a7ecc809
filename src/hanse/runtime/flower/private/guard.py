"""What a node may send to a SuperLink: bounded in size, and in its own name only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from fastapi import HTTPException
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import ObjectTree
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hanse.runtime.flower.private.chunks import MAX_BODY, most_objects

MAX_REPLIES = 4
"""How often a reply to one message is taken: a node may have lost the answer to sending it."""
_MAX_TRACKED = 4096


class BodyLimit:
    """Refuses requests with more bytes than a chunk has, before they are read."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        told = dict(scope["headers"]).get(b"content-length", b"")
        if not told.isdigit() or len(told) > 12 or int(told) > MAX_BODY:
            await PlainTextResponse("too large", 413)(scope, receive, send)
            return
        left = int(told)

        async def limited() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            return message if left >= 0 else {"type": "http.disconnect"}

        await self.app(scope, limited, send)


class Guard:
    """Checks replies once their sender is known. `allow` says how large a frame may be."""

    def __init__(self) -> None:
        self.max_objects = most_objects(0)
        self._replies: Counter[str] = Counter()

    def allow(self, max_bytes: int) -> None:
        self.max_objects = most_objects(max_bytes)

    async def check(self, request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        asked = getattr(request.state, "protobuf_request", None)
        if isinstance(asked, PushMessagesRequest) and not self._honest(asked):
            raise HTTPException(403)
        return await call_next(request)

    def _honest(self, request: PushMessagesRequest) -> bool:
        if len(request.messages_list) != 1 or len(request.message_object_trees) != 1:
            return False
        metadata = request.messages_list[0].metadata
        if metadata.src_node_id != request.node.node_id or not metadata.reply_to_message_id:
            return False
        if len(self._replies) > _MAX_TRACKED:
            self._replies.clear()
        self._replies[metadata.reply_to_message_id] += 1
        if self._replies[metadata.reply_to_message_id] > MAX_REPLIES:
            return False
        return count_objects(request.message_object_trees[0], self.max_objects) <= self.max_objects


def count_objects(tree: ObjectTree, limit: int) -> int:
    """Objects of a tree; any number over `limit` where there are more."""
    waiting, count = [tree], 0
    while waiting and count <= limit:
        count += 1
        waiting += waiting.pop().children
    return count
