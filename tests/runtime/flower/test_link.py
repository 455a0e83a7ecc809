"""The SuperLink of this process and nodes that reach it over TLS: large messages, and what it keeps out."""

from __future__ import annotations

import threading
import time
from contextlib import closing, suppress

import httpx
import pytest
import torch
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Message
from flwr.clientapp import ClientApp
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import ObjectTree
from flwr.proto.node_pb2 import Node

from hanse.errors import UnreachableError
from hanse.federation.messages import Broadcast, max_message_bytes
from hanse.federation.server import Server, ServerState
from hanse.federation.wire.layout import Layout
from hanse.recipe.federation import FederationSpec
from hanse.runtime.flower.envelope import (
    EXCHANGE,
    Answer,
    EnvelopeError,
    answered,
    ask,
    read_answer,
    read_asked,
)
from hanse.runtime.flower.joining import Joined
from hanse.runtime.flower.keys import KeyFolder, make_client_key, make_server_keys
from hanse.runtime.flower.private.chunks import CHUNK, MAX_BODY, most_objects
from hanse.runtime.flower.private.guard import count_objects
from hanse.runtime.flower.private.superlink import SuperLink
from hanse.runtime.flower.private.supernode import (
    Connection,
    LostError,
    OtherTransportError,
    TurnedAwayError,
    encrypts,
)
from hanse.runtime.flower.serving import listen
from tests.federation.test_server import upload

LIMIT = 13 << 20
TOKEN = "0" * 32


class Reach:
    """A server with the keys of two clients, and how to get to it."""

    def __init__(self, path):
        self.folder = KeyFolder(path)
        make_server_keys(self.folder, ["localhost"])
        for name in ("north", "south"):
            make_client_key(self.folder, name)
        listening = listen("127.0.0.1", 0)
        self.address = f"127.0.0.1:{listening.getsockname()[1]}"
        keys = [self.folder.client_public(name) for name in ("north", "south")]
        self.link = SuperLink(listening, keys, tuple(map(str, self.folder.certificate)))
        self.link.guard.allow(LIMIT)

    def connect(self, key=None, authority=None, known=True) -> Connection:
        authority = authority or self.folder.authority.read_bytes()
        key = key or self.folder.client_key("north")
        for _ in range(100):
            try:
                return Connection(self.address, authority, key, known=known, max_bytes=LIMIT)
            except LostError as error:
                if "refused" not in str(error):
                    raise
                time.sleep(0.05)
        raise AssertionError("the server does not begin")

    def push(self, node: int, data: bytes) -> str:
        message = Message(ask(data, TOKEN), dst_node_id=node, message_type=EXCHANGE, ttl=60.0)
        return self.link.grid.push_messages([message])[0]


def _soon(connection):
    """The next message."""
    for _ in range(600):
        if (message := connection.receive()) is not None:
            return message
        time.sleep(0.05)
    raise AssertionError("no message comes")


@pytest.fixture(scope="module")
def reach(tmp_path_factory):
    reach = Reach(tmp_path_factory.mktemp("reach") / "keys")
    yield reach
    reach.link.close()


@pytest.fixture
def connection(reach):
    with closing(reach.connect()) as connection:
        yield connection


@pytest.fixture
def node(reach, connection):
    return connection.node.node_id


@pytest.mark.parametrize("size", [0, 1, CHUNK, 12 << 20])
def test_f1_messages_of_any_size_arrive_whole_in_both_directions(reach, connection, node, size):
    down = (b"hanse" * (size // 5 + 1))[:size]
    name = reach.push(node, down)
    assert reach.link.grid.pull_messages([name]) == []
    message = connection.receive()
    assert read_asked(message.content) == (down, TOKEN)
    connection.send(Message(answered(Answer(down[::-1], [{"loss": 1.5}])), reply_to=message))
    (reply,) = reach.link.grid.pull_messages([name])
    answer = read_answer(reply.content, max_bytes=LIMIT)
    assert (answer.frame, answer.rows) == (down[::-1], [{"loss": 1.5}])
    state = reach.link.state
    assert (state.message_ins_store, state.object_store.store) == ({}, {})  # nothing is left behind
    assert connection.receive() is None


def test_f1_an_update_beyond_five_mebibytes_a_tensor_is_combined_bit_for_bit(reach, connection, node):
    layout = Layout(("w",), (((3 << 20) + 1,),), "bfloat16")  # 6 MiB and two bytes
    values = torch.randn(layout.numel, generator=torch.Generator().manual_seed(0)).bfloat16()
    server = Server(FederationSpec(codec="dense"), layout, [0], ServerState(torch.zeros(layout.numel)))
    name = reach.push(node, server.open_round()[0])
    message = connection.receive()
    opened = Broadcast.from_bytes(read_asked(message.content)[0], max_bytes=LIMIT)
    frame = upload(opened, 0, values)
    connection.send(Message(answered(Answer(frame)), reply_to=message))
    (reply,) = reach.link.grid.pull_messages([name])
    limit = max_message_bytes(layout.numel, layout.dtype)
    server.close_round({0: read_answer(reply.content, max_bytes=limit).frame})
    assert torch.equal(server.state.master, values.float())
    larger = upload(opened, 0, torch.zeros(2 * layout.numel, dtype=torch.bfloat16))
    with pytest.raises(EnvelopeError, match=f"^{len(larger)} bytes; at most {limit} are honest$"):
        read_answer(answered(Answer(larger)), max_bytes=limit)


def test_f1_a_message_that_is_shown_before_its_parts_are_there_is_waited_for(reach, connection, node):
    """Large ones are: their parts are stored one after the other."""
    asked, state = threading.Event(), reach.link.state
    pull, store = connection._client.PullObject, state.store_object

    def pulled(request):
        response = pull(request)
        if response.object_found and not response.object_available:
            asked.set()
        return response

    def stored(*parts):
        assert asked.wait(30)  # the node looks before anything is stored
        return store(*parts)

    connection._client.PullObject, state.store_object = pulled, stored
    try:
        pushing = threading.Thread(target=reach.push, args=(node, b"late parts"))
        pushing.start()
        received = _soon(connection)
        pushing.join(30)
    finally:
        connection._client.PullObject, state.store_object = pull, store
    assert read_asked(received.content) == (b"late parts", TOKEN)


def test_a_message_whose_parts_never_come_is_given_up(reach, connection, node, monkeypatch):
    monkeypatch.setattr("hanse.runtime.flower.private.supernode.PARTS_S", 0.0)
    monkeypatch.setattr(reach.link.state, "store_object", lambda *parts: True)
    name = reach.push(node, b"x")
    with pytest.raises(LostError, match="a part of the server's message is missing"):
        connection.receive()
    reach.link.state.delete_messages({name})


def test_keys_say_who_a_node_is(reach, node):
    assert reach.link.nodes[0] == node
    assert [info.node_id for info in reach.link.grid.get_nodes()] == [node]


def test_a_client_that_comes_again_is_let_in_at_once_and_can_be_told_apart(reach, connection, node):
    (before,) = [info.last_activated_at for info in reach.link.grid.get_nodes()]
    again = reach.connect()
    (after,) = [info.last_activated_at for info in reach.link.grid.get_nodes()]
    assert (again.node.node_id, after > before) == (node, True)


@pytest.mark.parametrize("known", [True, False])
def test_unknown_keys_are_turned_away(reach, known):
    with pytest.raises(TurnedAwayError):
        reach.connect(ec.generate_private_key(ec.SECP384R1()), known=known)


def test_a_server_of_another_authority_is_not_trusted(reach, tmp_path):
    other = KeyFolder(tmp_path / "other")
    make_server_keys(other, ["localhost"])
    with pytest.raises(TurnedAwayError, match="certificate"):
        reach.connect(authority=other.authority.read_bytes())


@pytest.fixture
def in_clear():
    """The address of a server that answers in clear, whatever it is sent."""
    listening = listen("127.0.0.1", 0)
    listening.listen()
    threading.Thread(target=_answer_in_clear, args=(listening,), daemon=True).start()
    yield f"127.0.0.1:{listening.getsockname()[1]}"
    listening.close()


def _answer_in_clear(listening):
    with suppress(OSError):  # closed
        while True:
            with listening.accept()[0] as arrived:
                arrived.recv(1 << 16)
                arrived.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")


def test_a_client_in_clear_is_told_that_the_server_encrypts(reach):
    reach.connect().close()
    key = ec.generate_private_key(ec.SECP384R1())
    with pytest.raises(OtherTransportError, match=r"^it encrypts, and this client does not$"):
        Connection(reach.address, None, key, known=False, max_bytes=LIMIT)


def test_a_client_that_encrypts_is_told_that_the_server_does_not(reach, in_clear):
    key = ec.generate_private_key(ec.SECP384R1())
    assert not encrypts(in_clear)
    with pytest.raises(OtherTransportError, match=r"^it does not encrypt, and this client does$"):
        Connection(in_clear, reach.folder.authority_pem(), key, known=True, max_bytes=LIMIT)


def test_the_one_who_joins_is_told_what_to_give(in_clear, reach):
    key = ec.generate_private_key(ec.SECP384R1())
    joined = Joined(in_clear, reach.folder.authority_pem(), key, 0, LIMIT, 60.0, lambda text: None)
    with pytest.raises(UnreachableError, match="Give --keys DIR to both, or --insecure to both"):
        joined.run(ClientApp())


@pytest.mark.parametrize(
    "path",
    ["/v1/control/start-run", "/v1/control/register-node", "/v1/runtime/pull-messages", "/docs", "/health"],
)
def test_nothing_but_the_fleet_api_is_served(reach, path):
    reach.connect().close()
    response = httpx.post(f"https://{reach.address}{path}", content=b"", verify=str(reach.folder.authority))
    assert response.status_code in (404, 415)
    assert b"hanse" not in response.content


def test_a_request_larger_than_a_chunk_is_not_read(reach):
    reach.connect().close()
    url = f"https://{reach.address}/v1/fleet/push-object"
    big = httpx.post(url, content=b"x" * (MAX_BODY + 1), verify=str(reach.folder.authority))
    assert big.status_code == 413
    endless = httpx.post(url, content=iter([b"x"] * 3), verify=str(reach.folder.authority))
    assert endless.status_code == 413  # no length is told


def test_replies_in_another_name_or_with_too_many_parts_are_refused(reach, connection, node):
    name = reach.push(node, b"x")
    message = connection.receive()
    reply = Message(answered(Answer(b"y")), reply_to=message)
    with (
        closing(reach.connect(reach.folder.client_key("south"))) as other,
        pytest.raises(LostError, match="403"),
    ):
        other.send(reply)  # south answers for north
    with pytest.raises(LostError, match="403"):
        parts = [ObjectTree(object_id=str(i)) for i in range(most_objects(LIMIT))]
        connection._call(
            connection._client.PushMessages,
            PushMessagesRequest(
                node=Node(node_id=node),
                messages_list=[],
                message_object_trees=[ObjectTree(object_id="x", children=parts)],
            ),
        )
    connection.send(reply)
    assert len(reach.link.grid.pull_messages([name])) == 1


def test_a_reply_that_never_becomes_whole_is_waited_for_without_blocking(reach, connection, node):
    name = reach.push(node, b"x")
    message = connection.receive()
    connection._push = lambda *parts: None
    connection.send(Message(answered(Answer(b"y" * 100)), reply_to=message))
    assert reach.link.grid.pull_messages([name]) == []
    reach.link.state.delete_messages({name})


def test_f1_a_reply_that_is_arriving_outlives_its_node(reach, node):
    """The parts of a large one take a while; its node may be away meanwhile."""
    name, late = reach.push(node, b"x"), []
    with closing(reach.connect()) as connection:
        message, push = _soon(connection), connection._push
        connection._push = lambda *parts: late.append(parts)
        connection.send(Message(answered(Answer(b"y" * 100)), reply_to=message))
        assert reach.link.grid.pull_messages([name]) == []
        reach.link.state.deactivate_node(node)
        assert reach.link.grid.pull_messages([name]) == []  # no word of a node that is away
        reach.link.state.activate_node(node, 10.0)
        for parts in late:
            push(*parts)
        (reply,) = reach.link.grid.pull_messages([name])
    assert read_answer(reply.content, max_bytes=LIMIT).frame == b"y" * 100


def test_the_parts_of_a_message_are_counted_up_to_a_limit():
    wide = ObjectTree(object_id="0", children=[ObjectTree(object_id="1")] * 200)
    assert count_objects(wide, 100) == 101
    assert count_objects(wide, 1000) == 201
    assert count_objects(ObjectTree(object_id="x"), 100) == 1
    assert (most_objects(0), most_objects(CHUNK), most_objects(CHUNK + 1)) == (16, 17, 18)


def test_a_message_to_nobody_is_not_stored(reach):
    assert reach.push(12345, b"x") == ""
