"""Uploads that come after their round: the formula by hand, who is heard, and what is forgotten."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanse.federation.conduct import Conduct
from hanse.federation.lateness import Latecomers, carried, counts_of, freshness
from hanse.federation.messages import Broadcast, Resync
from hanse.federation.server import Server
from hanse.runs.suspects import refusals_of
from tests.federation.fleet import Fleet
from tests.federation.test_server import open_, server, signal, upload


def late_server(values=(1.0, 2.0), clients=2, exponent=1.0, rounds=2, needed=1, **spec) -> Server:
    made = server(list(values), clients, **({"weighting": "uniform"} | spec))
    made.late, made.needed = Latecomers(exponent, rounds), needed
    return made


def passed(s: Server, values: list[float], clients=(0,)) -> Broadcast:
    """A round that only `clients` answer in time, all with these values."""
    opened = open_(s)
    s.close_round({k: upload(opened, k, torch.tensor(values)) for k in clients})
    return opened


def test_a_late_upload_moves_the_new_base_by_its_change_from_the_old_one():
    s = late_server()
    first = passed(s, [2.0, 2.0])  # the base was (1, 2), and is (2, 2) now
    s.late.hear({1: upload(first, 1, torch.tensor([1.0, 5.0]))})  # changed by (0, 3)
    opened = open_(s)
    record = s.close_round({0: upload(opened, 0, torch.tensor([5.0, 2.0]))})  # by (3, 0)
    assert record.weights == {0: pytest.approx(2 / 3), 1: pytest.approx(1 / 3)}  # 1 to (1 + 1)^-1
    assert s.state.master.tolist() == pytest.approx([2.0 + 2 / 3 * 3, 2.0 + 1 / 3 * 3])
    assert [(one.client, one.staleness, one.norm) for one in record.screened] == [(0, 0, 3.0), (1, 1, 3.0)]
    assert s.state.ledger == {"client 1: late upload weighed": 1}
    assert counts_of(s.state.ledger) == {"late_weighed": 1, "late_discarded": 0}
    assert not refusals_of(s.state.ledger)


@pytest.mark.parametrize(("aggregation", "target"), [("masked", [5.0, 5.0]), ("sign-consensus", [5.0, 5.0])])
def test_entries_that_a_late_client_left_alone_are_no_votes(aggregation, target):
    s = late_server(aggregation=aggregation)
    first = passed(s, [2.0, 2.0])
    s.late.hear({1: upload(first, 1, torch.tensor([1.0, 5.0]))})
    opened = open_(s)
    s.close_round({0: upload(opened, 0, torch.tensor([5.0, 2.0]))})
    assert s.state.master.tolist() == target


def test_what_late_clients_say_is_no_signal_of_this_round():
    s = late_server()
    first = passed(s, [2.0, 2.0])
    heard = upload(first, 1, torch.tensor([1.0, 5.0]), signal=signal(10, 0.9))
    s.late.hear({1: heard})
    opened = open_(s)
    record = s.close_round({0: upload(opened, 0, torch.tensor([5.0, 2.0]), signal=signal(10, 0.1))})
    assert s.state.reward_mean == 0.1
    assert record.bytes_up == len(heard) + len(
        upload(opened, 0, torch.tensor([5.0, 2.0]), signal=signal(10, 0.1))
    )


@pytest.mark.parametrize(
    ("late", "exponent", "weight"), [(0, 0.5, 1), (3, 0.5, 0.5), (1, 2, 0.25), (9, 0, 1)]
)
def test_freshness(late, exponent, weight):
    assert freshness(late, exponent) == weight


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=5), st.floats(-1e3, 1e3, width=32))
def test_a_change_carried_to_its_own_base_is_what_was_sent_and_no_change_is_the_new_base(sent, other):
    values = torch.tensor(sent, dtype=torch.float32)
    start = torch.full_like(values, other)
    assert torch.allclose(carried(values, start, start), values.double(), rtol=0, atol=1e-9)
    assert torch.equal(carried(start, start, values), values.double())


# --- who is heard -----------------------------------------------------------------------------------------


def discards(s: Server) -> list[str]:
    lines = [line for line in s.state.ledger if "late upload discarded: " in line]
    return [line.split("late upload discarded: ")[1] for line in lines]


def test_the_newest_counts_where_a_client_answers_the_open_round_too():
    s = late_server()
    first = passed(s, [2.0, 2.0])
    s.late.hear({1: upload(first, 1, torch.tensor([9.0, 9.0]))})
    opened = open_(s)
    s.close_round({k: upload(opened, k, torch.tensor([3.0, 3.0])) for k in (0, 1)})
    assert s.state.master.tolist() == [3.0, 3.0]
    assert discards(s) == ["the client answered the open round too"]


def test_of_two_late_uploads_the_newer_counts():
    s = late_server()
    rounds = [passed(s, [2.0, 2.0]), passed(s, [2.0, 2.0])]
    s.late.hear({1: upload(rounds[0], 1, torch.tensor([9.0, 9.0]))})
    s.late.hear({1: upload(rounds[1], 1, torch.tensor([2.0, 4.0]))})
    passed(s, [2.0, 2.0])
    assert s.state.master.tolist() == [2.0, pytest.approx(2.0 + 2 / 3)]
    assert discards(s) == ["a newer one came"]


@pytest.mark.parametrize("client", [0, 2])
def test_nobody_is_heard_late_who_answered_or_was_not_asked(client):
    s = late_server()
    first = passed(s, [2.0, 2.0])
    opened = open_(s)
    s.late.hear({client: upload(first, client, torch.tensor([9.0, 9.0]))})
    record = s.close_round({1: upload(opened, 1, torch.tensor([2.0, 2.0]))})
    assert record.weights == {1: 1.0}
    assert discards(s) == ["its round is too old, or was answered"]


def test_a_late_upload_that_was_weighed_is_not_weighed_again():
    s = late_server()
    first = passed(s, [2.0, 2.0])
    frame = upload(first, 1, torch.tensor([1.0, 5.0]))
    s.late.hear({1: frame})
    passed(s, [2.0, 2.0])
    before = s.state.master.tolist()
    s.late.hear({1: frame})
    passed(s, before)
    assert s.state.master.tolist() == before
    assert discards(s) == ["its round is too old, or was answered"]


@pytest.mark.parametrize(("rounds", "weighed"), [(2, 1), (1, 0)])
def test_uploads_that_are_too_old_are_discarded_and_no_strike(rounds, weighed):
    s = late_server(rounds=rounds)
    first = passed(s, [1.0, 2.0])
    passed(s, [1.0, 2.0])
    s.late.hear({1: upload(first, 1, torch.tensor([4.0, 2.0]))})
    passed(s, [1.0, 2.0])
    assert counts_of(s.state.ledger) == {"late_weighed": weighed, "late_discarded": 1 - weighed}
    assert s.state.conduct.strikes == {}
    assert s.state.master.tolist() == [pytest.approx(1 + 3 * weighed * (1 / 3) / (1 + 1 / 3)), 2.0]


def test_a_client_in_quarantine_is_not_heard_late_either():
    s = late_server(clients=3)
    first = passed(s, [2.0, 2.0])
    s.state.conduct = Conduct(until={1: 4})
    s.late.hear({1: upload(first, 1, torch.tensor([9.0, 9.0]))})
    passed(s, [2.0, 2.0])
    assert discards(s) == ["the client is in quarantine"]
    assert s.state.master.tolist() == [2.0, 2.0]


def test_a_late_plea_for_whole_values_is_discarded():
    s = late_server()
    passed(s, [2.0, 2.0])
    s.late.hear({1: Resync(1, 1).to_bytes()})
    passed(s, [2.0, 2.0])
    assert discards(s) == ["it asks for whole values"]


# --- what is not honest -----------------------------------------------------------------------------------

LIES = [
    (lambda opened: b"garbage" * 9, "not a message"),
    (lambda opened: upload(opened, 0, torch.zeros(2)), "speaks in another client's name"),
    (lambda opened: upload(opened, 1, torch.zeros(2), base="0" * 64), "was trained from another base"),
    (lambda opened: upload(opened, 1, torch.tensor([float("nan"), 0.0])), "finite"),
    (lambda opened: upload(opened, 1, torch.tensor([3e7, 0.0])), "which no honest round has"),
]


@pytest.mark.parametrize(("lie", "why"), LIES)
def test_a_bad_late_upload_is_one_clients_refusal(lie, why):
    s = late_server()
    first = passed(s, [2.0, 2.0])
    s.late.hear({1: lie(first)})
    opened = open_(s)
    record = s.close_round({0: upload(opened, 0, torch.tensor([3.0, 3.0]))})
    (bad,) = [one for one in record.screened if one.client == 1]
    assert why in (bad.reason or "")
    assert s.state.master.tolist() == [3.0, 3.0]
    assert s.state.conduct.strikes == {1: 1}
    assert refusals_of(s.state.ledger) == {1: 1}


# --- rounds -----------------------------------------------------------------------------------------------


def test_late_uploads_make_no_quorum_and_wait_for_the_round_that_counts():
    s = late_server(clients=3, needed=2)
    first = passed(s, [2.0, 2.0], clients=(0, 1))
    frame = upload(first, 2, torch.tensor([1.0, 5.0]))
    s.late.hear({2: frame})
    opened = open_(s)
    missed = s.close_round({0: upload(opened, 0, torch.tensor([2.0, 2.0]))})
    assert (missed.weights, s.state.round) == ({}, 2)
    opened = open_(s)
    replies = {k: upload(opened, k, torch.tensor([2.0, 2.0])) for k in (0, 1)}
    met = s.close_round(replies)
    assert met.weights == {0: pytest.approx(0.4), 1: pytest.approx(0.4), 2: pytest.approx(0.2)}
    assert met.bytes_up == sum(map(len, replies.values()))  # the late one was counted when it came


def test_what_is_late_for_an_exchange_is_not_late_for_the_same_round():
    s = late_server(needed=2)
    opened = open_(s)
    sent = {k: upload(opened, k, torch.tensor([2.0 + k, 2.0])) for k in (0, 1)}
    s.close_round({0: sent[0]})
    s.late.hear({1: sent[1]})
    open_(s)
    record = s.close_round({0: sent[0]})
    assert record.weights == {0: 0.5, 1: 0.5}
    assert [one.staleness for one in record.screened] == [0, 0]
    assert s.state.master.tolist() == [2.5, 2.0]
    assert record.bytes_up == len(sent[0]) + len(sent[1])


def test_no_more_bases_are_held_than_rounds_and_none_for_nobody():
    s = late_server(rounds=2)
    for _ in range(4):
        passed(s, [2.0, 2.0])
    assert sorted(s.late._past) == [3, 4]
    passed(s, [2.0, 2.0], clients=(0, 1))
    assert sorted(s.late._past) == []


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_nobody_late_changes_nothing(dtype):
    plain, weighing = Fleet(3, dtype), Fleet(3, dtype)
    weighing.server.late = Latecomers(0.5, 2)
    for _ in range(3):
        plain.round(), weighing.round()
    assert torch.equal(plain.server.state.master, weighing.server.state.master)
    assert plain.server.state.ledger == weighing.server.state.ledger


def test_patches_of_an_older_base_are_read_against_it_and_large_models_from_their_bytes(monkeypatch):
    """A patch only says what changed; `keep` off: values are decoded a second time when they are combined."""
    told = []
    for most in (1 << 25, 0):
        monkeypatch.setattr("hanse.federation.server.MOST_VALUES", most)
        fleet = Fleet(2, "bfloat16")
        fleet.server.late = Latecomers(0.5, 2)
        fleet.round()
        messages = fleet.server.open_round()
        assert fleet.server.codec != "dense"
        replies = fleet.send(messages)
        start = fleet.server.ground[1]
        fleet.server.close_round({0: replies[0]})
        fleet.server.late.hear({1: replies[1]})
        base = fleet.server.state.master.clone()
        messages = fleet.server.open_round()
        fleet.silent = {1}
        record = fleet.server.close_round(fleet.send(messages))
        assert [one.staleness for one in record.screened] == [0, 1]
        told.append(fleet.server.state.master)
        assert not torch.equal(start.float(), base)
        assert fleet.server.state.downlink.held[1] != fleet.server.state.downlink.held[0]
    assert torch.equal(*told)


def test_a_late_update_is_screened_by_its_norm_among_the_others():
    s = late_server(clients=4)
    first = passed(s, [2.0, 2.0], clients=(0, 1, 2))
    s.late.hear({3: upload(first, 3, torch.tensor([1000.0, 2.0]))})
    opened = open_(s)
    record = s.close_round({k: upload(opened, k, torch.tensor([2.0, 3.0])) for k in (0, 1, 2)})
    assert "update norm 999" in (record.screened[3].reason or "")
    assert record.weights.keys() == {0, 1, 2}
