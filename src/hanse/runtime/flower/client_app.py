"""Our client as a Flower ClientApp: bytes in, bytes out."""

from __future__ import annotations

from collections.abc import Callable

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from hanse.runtime.flower.envelope import (
    Answer,
    EnvelopeError,
    answered,
    introduce,
    read_asked,
    read_farewell,
)
from hanse.runtime.flower.node import Node


def client_app(
    node: Callable[[], Node], client: Callable[[Context], int], farewell: Callable[[str], None] | None = None
) -> ClientApp:
    """An app that answers with `node()`, built in the process that needs it, as the client that `client`
    finds in Flower's context. `farewell`: what to do when the server says that the run is over, or (then with
    a reason) that this client has no part in it."""
    app = ClientApp()

    @app.train("exchange")
    def _exchange(message: Message, context: Context) -> Message:
        try:
            frame, token = read_asked(message.content)
            answer = node().answer(client(context), frame, token)
        except EnvelopeError as error:
            answer = Answer(refused=str(error))
        return Message(answered(answer), reply_to=message)

    @app.query("hello")
    def _hello(message: Message, context: Context) -> Message:
        return Message(introduce(node().hello(client(context))), reply_to=message)

    @app.query("farewell")
    def _farewell(message: Message, context: Context) -> Message:
        if farewell is not None:
            farewell(read_farewell(message.content))
        return Message(introduce({"client": client(context)}), reply_to=message)

    return app


def by_partition(context: Context) -> int:
    """The client of a simulated node: Flower numbers them from 0."""
    return int(context.node_config["partition-id"])
