import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanse.federation.aggregation import AGGREGATORS, Contribution
from hanse.federation.messages import Broadcast, Payload, Upload, max_message_bytes
from hanse.federation.server import Server, ServerState
from hanse.federation.server_optimizer import SERVER_OPTIMIZERS, Agreement
from hanse.federation.signal import Signal
from hanse.federation.weighting import WEIGHTINGS, Standing
from hanse.federation.wire.dense import encode_dense
from hanse.federation.wire.layout import Layout
from hanse.recipe.federation import FederationSpec, ServerSpec, WeightsSpec


def signal(samples: int = 10, reward: float = 0.5) -> Signal:
    return Signal(reward, 0.25, 4, 3, samples)


def upload(opened: Broadcast, client: int, values: torch.Tensor, **changes: object) -> bytes:
    fields = {"round": opened.round, "client": client, "base": opened.base, "dtype": opened.dtype}
    payload = Payload("values", encode_dense(values, opened.dtype))
    fields |= {"signal": signal(), "payload": payload} | changes
    return Upload(**fields).to_bytes()  # type: ignore[arg-type]


def server(values: list[float], clients: int = 2, dtype: str = "float32", **spec: object) -> Server:
    layout = Layout(("w",), ((len(values),),), dtype)
    state = ServerState(torch.tensor(values))
    return Server(FederationSpec(**spec), layout, list(range(clients)), state, group_size=4)


def open_(s: Server) -> Broadcast:
    return Broadcast.from_bytes(s.open_round()[0], max_bytes=1 << 20)


def test_the_mean_by_hand():
    s = server([1.0, 2.0], weighting="samples")
    opened = open_(s)
    replies = {
        0: upload(opened, 0, torch.tensor([2.0, 2.0]), signal=signal(30, 1.0)),
        1: upload(opened, 1, torch.tensor([4.0, 0.0]), signal=signal(10, 0.0)),
    }
    record = s.close_round(replies)
    assert record.weights == {0: 0.75, 1: 0.25}
    assert s.state.master.tolist() == [2.5, 1.5]
    assert s.state.reward_mean == 0.75
    assert s.state.round == 2
    assert [s.norm for s in record.screened] == [1.0, pytest.approx(13**0.5)]
    assert record.bytes_up == sum(map(len, replies.values()))


def test_weightings():
    standings = [Standing(0, signal(30), 1.0), Standing(1, signal(10), 1.0)]
    assert WEIGHTINGS["samples"](WeightsSpec(), {}, standings)[0] == [30.0, 10.0]
    assert WEIGHTINGS["uniform"](WeightsSpec(), {}, standings)[0] == [1.0, 1.0]


def test_one_client_passes_through_unchanged_bit_for_bit():
    values = torch.randn(10_000, generator=torch.Generator().manual_seed(0))
    master = torch.randn(10_000, generator=torch.Generator().manual_seed(1)) * 1e-6
    target = AGGREGATORS["mean"](master, [Contribution(1.0, values)])
    agreement = Agreement(master, master, target, [len(master)])
    assert torch.equal(SERVER_OPTIMIZERS["plain"](ServerSpec(), {}, agreement)[0], values)


@given(st.permutations(range(4)))
def test_the_order_in_which_uploads_arrive_does_not_matter(order):
    def close(order):
        s = server([0.1, 0.2, 0.3], clients=4)
        opened = open_(s)
        vectors = [torch.rand(3, generator=torch.Generator().manual_seed(k)) for k in range(4)]
        s.close_round({k: upload(opened, k, vectors[k], signal=signal(k + 1)) for k in order})
        return s.state.master

    assert torch.equal(close(order), close(range(4)))


def test_identical_clients_equal_one_client_up_to_rounding():
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    for weighting, (a, b) in itertools.product(WEIGHTINGS, [(1, 9), (5, 5)]):
        s = server([0.0] * 1000, weighting=weighting, weights=WeightsSpec(fixed=[0.25, 0.75]))
        opened = open_(s)
        s.close_round(
            {0: upload(opened, 0, values, signal=signal(a)), 1: upload(opened, 1, values, signal=signal(b))}
        )
        assert torch.allclose(s.state.master, values, rtol=1e-6, atol=0)


def test_a_bfloat16_exchange_keeps_a_float32_master():
    s = server([1.0 + 2**-12], clients=1, dtype="bfloat16")
    opened = open_(s)
    s.close_round({0: upload(opened, 0, torch.tensor([1.0078125]))})
    assert s.state.master.item() == 1.0 + 2**-12 + 0.0078125
    assert s.values().item() == torch.tensor(s.state.master.item()).bfloat16().float().item()


def refusals(opened: Broadcast) -> dict[str, bytes]:
    good = torch.tensor([1.0, 1.0])
    return {
        "expected": b"garbage",
        "checksum": upload(opened, 1, good)[:-1] + b"\x07",
        "another client": upload(opened, 0, good),
        "is for round 9": upload(opened, 1, good, round=9),
        "another base": upload(opened, 1, good, base="x"),
        "another dtype": upload(opened, 1, good, dtype="bfloat16"),
        "bytes of values": upload(opened, 1, torch.ones(3)),
        "non-finite": upload(opened, 1, torch.tensor([1.0, float("nan")])),
        "a 'broadcast' message": opened.to_bytes(),
    }


@pytest.mark.parametrize("reason", list(refusals(open_(server([0.0, 0.0])))))
def test_a_bad_upload_is_left_out_counted_and_named(reason):
    s = server([0.0, 0.0])
    opened = open_(s)
    record = s.close_round({0: upload(opened, 0, torch.tensor([3.0, 5.0])), 1: refusals(opened)[reason]})
    assert s.state.master.tolist() == [3.0, 5.0]
    assert reason in (record.screened[1].reason or "")
    assert sum(s.state.ledger.values()) == 1


def test_a_round_without_usable_uploads_keeps_the_model():
    s = server([1.0, 2.0])
    s.open_round()
    record = s.close_round({0: b"", 1: b"\x00" * 100})
    assert s.state.master.tolist() == [1.0, 2.0]
    assert record.weights == {}
    assert s.state.round == 2


def test_broadcast_round_trip_and_bound():
    data = server([1.0, 2.0]).open_round()[0]
    read = Broadcast.from_bytes(data, max_bytes=max_message_bytes(2, "float32"))
    assert (read.round, bytes(read.payload.data)) == (1, encode_dense(torch.tensor([1.0, 2.0]), "float32"))
    assert read.to_bytes() == data == server([1.0, 2.0]).open_round()[0]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"reward_mean": float("inf")},
        {"reward_mean": 10**400},
        {"reward_std": 1e308},
        {"samples": 2**60},
        {"reward_std": -1.0},
        {"groups": -1},
        {"samples": 1.5},
        {"samples": True},
        {"extra": 1},
    ],
)
def test_impossible_signals_are_refused(fields):
    document = signal().to_fields() | fields if fields else {}
    with pytest.raises(ValueError, match="signal"):
        Signal.from_fields(document)


def test_a_hostile_number_in_the_header_is_left_out_and_the_round_goes_on():
    import hashlib
    import json
    import struct

    s = server([0.0, 0.0])
    opened = open_(s)
    good = upload(opened, 1, torch.tensor([9.0, 9.0]))
    prefix = struct.Struct(">4sBI32s")
    magic, version, length, _ = prefix.unpack_from(good)
    document = json.loads(good[prefix.size : prefix.size + length])
    document["fields"]["signal"]["reward_mean"] = 10**400
    header = json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
    body = good[prefix.size + length :]
    digest = hashlib.sha256(header + body).digest()
    hostile = prefix.pack(magic, version, len(header), digest) + header + body
    record = s.close_round({0: upload(opened, 0, torch.tensor([3.0, 5.0])), 1: hostile})
    assert s.state.master.tolist() == [3.0, 5.0]
    assert record.screened[1].reason is not None
    assert open_(s).reward_mean == 0.5
