"""F-9, F-10, F-11, F-12: one party's reply, whatever it holds, is one party's reply."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanse.federation.aggregation import AGGREGATORS, LORA_RULES
from hanse.federation.messages import Broadcast, Payload, Report, Upload
from hanse.federation.payload import pack_vector
from hanse.federation.robust import ROBUST
from hanse.federation.server import Server, ServerState
from hanse.federation.signal import Signal
from hanse.federation.weighting import UNCAPPED, WEIGHTINGS
from hanse.federation.wire.dense import encode_dense
from hanse.federation.wire.layout import Layout
from hanse.recipe.federation import FederationSpec

FULL = sorted(set(AGGREGATORS) - set(LORA_RULES))
CAPPED = sorted(set(WEIGHTINGS) - set(UNCAPPED))


def signal(**fields) -> Signal:
    return Signal(
        **{"reward_mean": 0.5, "reward_std": 0.25, "groups": 4, "informative": 3, "samples": 10, "updates": 2}
        | fields
    )


class Round:
    """An open round of a server and three values; `upload` makes replies to it."""

    def __init__(self, clients: int = 3, **spec) -> None:
        layout = Layout(("w",), ((3,),), "float32")
        state = ServerState(torch.tensor([1.0, 2.0, 3.0]))
        self.server = Server(FederationSpec(**spec), layout, list(range(clients)), state, group_size=4)
        self.opened = Broadcast.from_bytes(self.server.open_round()[0], max_bytes=1 << 20)

    def upload(self, client: int, values: list[float] | None = None, **fields) -> bytes:
        vector = torch.tensor(values or [1.0 + client, 2.0, 3.0])
        document = {"round": 1, "client": client, "base": self.opened.base, "dtype": "float32"}
        document |= {"signal": signal(), "payload": Payload("values", encode_dense(vector, "float32"))}
        return Upload(**document | fields).to_bytes()  # type: ignore[arg-type]

    @property
    def values(self) -> list[float]:
        return self.server.state.master.tolist()


def test_f8_a_client_that_is_refused_again_and_again_is_left_out_for_a_while():
    r = Round(screening={"quarantine_after": 2, "quarantine_rounds": 2})
    asked, refused = [], []
    for number in range(1, 7):
        opened = r.server.open_round()
        asked.append(sorted(opened))
        r.opened = Broadcast.from_bytes(opened[0], max_bytes=1 << 20)
        replies = {k: r.upload(k, [1.5, 2.5, 3.5], round=number) for k in (0, 1)} | {2: b"nonsense"}
        record = r.server.close_round({k: replies[k] for k in opened})
        refused.append([s.client for s in record.screened if s.reason])
        assert list(record.weights) == [0, 1]
        assert record.away == ({2: 5 - number} if number in (3, 4) else {})
    assert asked == [[0, 1, 2], [0, 1, 2], [0, 1], [0, 1], [0, 1, 2], [0, 1, 2]]
    assert refused == [[2], [2], [], [], [2], [2]]
    assert r.server.state.ledger["client 2: in quarantine after 2 refusals"] == 2


def test_f8_a_quorum_comes_before_a_quarantine_and_that_is_said():
    r = Round(screening={"quarantine_after": 1})
    r.server.needed = 2
    r.server.close_round({0: r.upload(0), 1: r.upload(1), 2: b"nonsense"})
    r.server.open_round()
    record = r.server.close_round(dict.fromkeys((0, 1), b"nonsense"))
    assert (record.weights, record.away) == ({}, {2: 5})
    assert r.server.state.round == 2
    r.server.needed = 3
    assert sorted(r.server.open_round()) == [0, 1, 2]
    r.opened = Broadcast.from_bytes(r.server.open_round()[0], max_bytes=1 << 20)
    record = r.server.close_round({k: r.upload(k, [1.0, 2.0, 3.5], round=2) for k in range(3)})
    assert list(record.weights) == [0, 1, 2]
    assert r.server.state.ledger["client 2: back from quarantine early, to make up the quorum"] == 1


@given(st.one_of(st.binary(max_size=300), st.integers(0, 299)), st.integers(0, 255))
def test_f9_any_bytes_from_one_client_are_left_out_counted_and_named(garbage, byte):
    r = Round()
    good = bytearray(r.upload(1))
    if isinstance(garbage, int):
        good[garbage % len(good)] ^= byte or 1
        garbage = bytes(good)
    record = r.server.close_round({0: r.upload(0, [2.0, 4.0, 5.0]), 1: garbage})
    assert record.weights == {0: 1.0}
    assert r.values == [2.0, 4.0, 5.0]
    assert record.screened[1].reason
    assert sum(r.server.state.ledger.values()) == 1


@pytest.mark.parametrize("vector", [[1.0, float("nan"), 0.0], [float("inf")] * 3, [1.0]])
def test_f9_bad_vectors_of_a_local_method_are_one_clients_fault(vector):
    r = Round(local="scaffold")
    sane, bad = ({"control": pack_vector(torch.tensor(v))} for v in ([1.0, 0.0, 0.0], vector))
    record = r.server.close_round({0: r.upload(0, extras=sane), 1: r.upload(1, extras=bad)})
    assert list(record.weights) == [0]
    assert r.server.state.local["control"].isfinite().all()


def test_f9_a_malformed_report_ends_no_round():
    r = Round(budget={"fraction": 0.5})
    good = Report(1, 0, r.opened.base, signal(), 3).to_bytes()
    grants = r.server.grant({0: good, 1: b"\x00" * 50, 2: good})
    assert list(grants) == [0]
    record = r.server.close_round({0: r.upload(0, [2.0, 2.0, 3.0]), 1: r.upload(1)})
    assert list(record.weights) == [0]
    assert [s.client for s in record.screened if s.reason] == [1, 2]


def test_f9_nobody_reports_and_the_model_stays():
    r = Round(budget={"fraction": 0.5})
    assert r.server.grant({0: b"", 1: b"x"}) == {}
    assert r.server.close_round({0: r.upload(0)}).weights == {}
    assert r.values == [1.0, 2.0, 3.0]
    assert r.server.state.round == 2


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_f10_zero_total_weight_divides_by_no_zero(weighting):
    weights = {"fixed": [0.0] * 3, "times_samples": True}
    r = Round(weighting=weighting, weights=weights)
    nothing = signal(reward_mean=0.0, reward_std=0.0, informative=0, samples=0, updates=0)
    record = r.server.close_round({k: r.upload(k, [1.0, 2.0, 3.0], signal=nothing) for k in range(3)})
    assert record.weights == pytest.approx({0: 1 / 3, 1: 1 / 3, 2: 1 / 3})
    assert r.values == pytest.approx([1.0, 2.0, 3.0])
    assert r.server.state.reward_mean == 0.0


@pytest.mark.parametrize("rule", FULL)
@pytest.mark.parametrize("bad", [[float("nan")] * 3, [float("inf"), 0.0, 0.0], [1e30, 1.0, 1.0]])
def test_f11_no_rule_sees_a_huge_or_non_finite_update(rule, bad):
    r = Round(4, aggregation=rule)
    replies = {k: r.upload(k, [1.5, 2.5, 3.5]) for k in range(3)} | {3: r.upload(3, bad)}
    record = r.server.close_round(replies)
    assert list(record.weights) == [0, 1, 2]
    assert r.values == pytest.approx([1.5, 2.5, 3.5])


@pytest.mark.parametrize("rule", sorted(set(ROBUST) - {"fltrust"}))
@pytest.mark.parametrize("bad", [[float("nan")] * 3, [float("inf"), 0.0, 0.0], [1e30, 1.0, 1.0]])
def test_f11_no_robust_rule_sees_a_huge_or_non_finite_update(rule, bad):
    r = Round(8, robust={"rule": rule, "byzantine": 1})
    replies = {k: r.upload(k, [1.5, 2.5, 3.5]) for k in range(7)} | {7: r.upload(7, bad)}
    record = r.server.close_round(replies)
    assert [s.client for s in record.screened if s.reason] == [7]
    assert r.values == pytest.approx([1.5, 2.5, 3.5])


@pytest.mark.parametrize("weighting", CAPPED)
@pytest.mark.parametrize("clients", [1, 2, 3, 8])
def test_f12_nobody_talks_itself_above_the_cap(weighting, clients):
    r = Round(clients, weighting=weighting, weights={"cap": 1.5, "times_samples": True, "gamma": 10.0})
    liar = signal(
        reward_mean=-1e12 if weighting == "fairness" else 1e12,
        reward_std=1e12,
        reward_std_pooled=1e12,
        reward_first=-1e12,
        reward_last=1e12,
        coherence=1e12,
        samples=2**40 - 1,
    )
    replies = {k: r.upload(k, [1.5, 2.0, 3.0], signal=liar if k == 0 else signal()) for k in range(clients)}
    weights = r.server.close_round(replies).weights
    assert sum(weights.values()) == pytest.approx(1)
    assert weights[0] <= min(1.0, 1.5 / clients) + 1e-9


def test_f12_counts_that_cannot_be_are_refused():
    r = Round(weighting="samples", screening={"max_samples": 100})
    replies = {k: r.upload(k, signal=signal(samples=n)) for k, n in enumerate((10, 30, 101))}
    assert r.server.close_round(replies).weights == {0: 0.25, 1: 0.75}


def test_f12_a_client_cannot_blow_others_up_by_claiming_many_updates():
    r = Round(local="fednova")
    r.server = Server(r.server.spec, r.server.layout, [0, 1, 2], r.server.state, group_size=4, most_updates=2)
    r.server.open_round()
    replies = {k: r.upload(k, [1.5, 2.0, 3.0], signal=signal(updates=n)) for k, n in enumerate((2, 1, 2**39))}
    record = r.server.close_round(replies)
    assert list(record.weights) == [0, 1]
    assert r.values == pytest.approx([1 + 0.5 * 0.5 * (1.5 / 2 + 1.5 / 1), 2.0, 3.0])


@pytest.mark.parametrize("rule", FULL)
@pytest.mark.parametrize("local", ["plain", "fednova", "scaffold"])
def test_the_order_of_replies_does_not_matter_to_any_rule(rule, local):
    if rule == "norm-equalised" and local == "fednova":
        return
    results = set()
    for order in permutations(range(3)):
        r = Round(aggregation=rule, local=local, weighting="reward-std", server_optimizer="adam")
        replies = {}
        for k in order:
            random = torch.Generator().manual_seed(k)
            extras = {"control": pack_vector(torch.randn(3, generator=random))} if local == "scaffold" else {}
            values = torch.randn(3, generator=random).tolist()
            said = signal(reward_std=0.1 * (k + 1), updates=k + 1)
            replies[k] = r.upload(k, values, signal=said, extras=extras)
        record = r.server.close_round(replies)
        assert list(record.weights) == [0, 1, 2]
        local_state = {name: tuple(v.tolist()) for name, v in r.server.state.local.items()}
        results.add((tuple(r.values), tuple(sorted(local_state.items()))))
    assert len(results) == 1
