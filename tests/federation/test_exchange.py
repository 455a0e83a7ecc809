"""What both ends say in a round, with real clients: budgets, patches, lost bases, absence, restoring."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from hanse.federation.budget import share_entries
from hanse.federation.client import ClientState
from hanse.federation.downlink import MAX_BASES, Downlink
from hanse.federation.messages import Grant
from hanse.federation.wire.frame import WireError
from tests.federation.fleet import Fleet

HALF = {"fraction": 0.5}
ONE = [({"broadcast"}, {"upload"})]
TWO = [({"broadcast"}, {"report"}), ({"grant"}, {"upload"})]


@pytest.mark.parametrize(
    ("budget", "spoken"),
    [
        ({}, ONE),
        ({"bits": 4}, ONE),
        (HALF, TWO),
        (HALF | {"share": "uniform"}, TWO),
        (HALF | {"share": "own"}, ONE),
        (HALF | {"grant": "lagged"}, ONE),
    ],
)
def test_exchanges_of_a_round(budget, spoken):
    fleet = Fleet(budget=budget)
    for _ in range(2):
        record = fleet.round()
        assert fleet.spoken == spoken
        assert [s.reason for s in record.screened] == [None, None]
    assert record.bytes_up == sum(len(m) for up in fleet.answered for m in up.values())
    assert record.bytes_down == sum(len(m) for down in fleet.sent for m in down.values())


@pytest.mark.parametrize("share", ["signal", "uniform"])
def test_grants_share_the_budget_and_are_not_exceeded(share):
    fleet = Fleet(3, budget={"fraction": 0.2, "share": share})
    for _ in range(2):
        record = fleet.round()
        uploads = [fleet.upload(k) for k in range(3)]
        changed = [u.changed for u in uploads]
        shares = [u.signal.reward_std if share == "signal" else 1.0 for u in uploads]
        assert list(record.granted.values()) == share_entries(changed, shares, 0.2)
        assert sum(record.granted.values()) == round(0.2 * sum(changed))
        assert [s.entries for s in record.screened] == list(record.granted.values())


def test_own_budgets_are_a_fraction_of_a_clients_own_changes():
    fleet = Fleet(budget={"fraction": 0.25, "share": "own"})
    record = fleet.round()
    assert record.granted == {}
    assert [s.entries for s in record.screened] == [round(0.25 * fleet.upload(k).changed) for k in (0, 1)]


def test_lagged_grants_follow_the_last_rounds_signals():
    fleet = Fleet(budget={"fraction": 0.2, "grant": "lagged"})
    first = fleet.round()
    assert first.granted == {}
    assert [(fleet.broadcast(k).entries, fleet.broadcast(k).fraction) for k in (0, 1)] == [(None, 0.2)] * 2
    said = [fleet.upload(k) for k in (0, 1)]
    assert [s.entries for s in first.screened] == [round(0.2 * u.changed) for u in said]
    second = fleet.round()
    shares = [u.signal.reward_std for u in said]
    assert list(second.granted.values()) == share_entries([u.changed for u in said], shares, 0.2)
    assert [fleet.broadcast(k).entries for k in (0, 1)] == list(second.granted.values())
    assert all(s.entries <= second.granted[s.client] for s in second.screened)


def test_a_client_that_sends_more_than_granted_is_refused():
    fleet = Fleet(budget=HALF)

    def greedy(messages):
        tampered = {}
        for k, data in messages.items():
            if k == 1 and fleet.sent:
                grant = Grant.from_bytes(data)
                data = replace(grant, entries=grant.entries + 1).to_bytes()
            tampered[k] = data
        return fleet.send(tampered)

    record = fleet.round(greedy)
    assert record.weights == {0: 1.0}
    assert record.screened[1].reason == (
        f"changes {record.granted[1] + 1} entries; granted were {record.granted[1]}"
    )


def test_a_repeated_message_gets_the_same_bytes():
    fleet = Fleet(budget=HALF)
    fleet.round()
    state = fleet.clients[0].state
    for down, up in zip(fleet.sent, fleet.answered, strict=True):
        assert fleet.answer(0, down[0]) == up[0]
    assert fleet.clients[0].state is state


@pytest.mark.parametrize("grant", [Grant(1, 1, 5), Grant(2, 0, 5), Grant(0, 0, 5)])
def test_a_stray_grant_is_refused_and_changes_nothing(grant):
    fleet = Fleet(budget=HALF)
    fresh = fleet.clients[0].state
    with pytest.raises(WireError, match="grant"):
        fleet.answer(0, grant.to_bytes())
    assert fleet.clients[0].state is fresh


@pytest.mark.parametrize("feedback", ["upload", "start", "off"])
def test_a_client_whose_report_was_lost_has_everything_left_over(feedback):
    fleet = Fleet(budget=HALF | {"error_feedback": feedback})

    def deaf(messages):
        return {k: v for k, v in fleet.send(messages).items() if k != 1 or len(fleet.sent) > 1}

    record = fleet.round(deaf)
    assert list(record.granted) == [0]
    assert list(record.weights) == [0]
    state = fleet.clients[1].state
    left = sum(t for t in (state.base.float(), state.residual, state.unsent) if t is not None)
    if feedback == "off":
        assert torch.equal(state.residual, state.trained.target - state.trained.target.bfloat16().float())
    else:
        torch.testing.assert_close(left, state.trained.target, rtol=0, atol=1e-6)
    assert list(fleet.round().weights) == [0, 1]
    assert fleet.clients[1].state.trained is None


@pytest.mark.parametrize("lost", ["base", "all"])
def test_a_client_that_lost_its_base_asks_for_whole_values(lost):
    fleet, other = Fleet(moments="reset", residual="discard"), Fleet(moments="reset", residual="discard")
    fleet.round(), other.round()
    client = fleet.clients[1]
    assert client.state.base is not None
    if lost == "base":
        client.state = replace(client.state, base=None)
    else:
        client.state = ClientState(client.state.learner, cursor=client.state.cursor)
    record, plain = fleet.round(), other.round()
    assert fleet.spoken == [({"broadcast"}, {"upload", "resync"}), ({"broadcast"}, {"upload"})]
    assert set(fleet.sent[1]) == {1}
    assert other.spoken == ONE
    assert record.weights == plain.weights
    assert torch.equal(fleet.server.state.master, other.server.state.master)
    assert fleet.server.state.ledger == {"client 1: asked for whole values": 1}
    fleet.round()
    assert fleet.spoken == ONE


def test_who_asks_again_and_again_is_left_out():
    fleet = Fleet(residual="discard")
    fleet.round()
    resync = {}

    def stubborn(messages):
        answers = fleet.send(messages)
        if not resync:
            fleet.clients[1].state = replace(fleet.clients[1].state, base=None, round=0, replies=())
            resync[1] = fleet.answer(1, messages[1])
        return answers | {1: resync[1]}

    record = fleet.round(stubborn)
    assert list(record.weights) == [0]
    assert "resync" in (record.screened[1].reason or "")


def test_patches_go_to_who_holds_a_base_and_whole_values_to_others():
    fleet = Fleet(3)
    fleet.silent = {2}
    fleet.round()
    assert {fleet.broadcast(k).payload.form for k in range(3)} == {"values"}
    fleet.silent = set()
    fleet.round()
    assert [fleet.broadcast(k).payload.form for k in range(3)] == ["patch", "patch", "values"]
    assert fleet.broadcast(0).patched == fleet.broadcast(1).patched
    fleet.round()
    assert [fleet.broadcast(k).payload.form for k in range(3)] == ["patch"] * 3


def test_a_dense_codec_never_patches():
    fleet = Fleet(codec="dense")
    for _ in range(2):
        fleet.round()
        assert [fleet.broadcast(k).payload.form for k in (0, 1)] == ["values"] * 2
    assert fleet.server.state.downlink.bases == {}
    assert fleet.clients[0].state.base is None


def test_bases_that_nobody_holds_and_old_ones_are_forgotten():
    downlink = Downlink()
    downlink.answered([0, 1], "a", torch.zeros(1))
    downlink.answered([0], "b", torch.ones(1))
    assert list(downlink.bases) == ["a", "b"]
    downlink.answered([1], "c", torch.ones(1))
    assert list(downlink.bases) == ["b", "c"]
    for k in range(MAX_BASES):
        downlink.answered([k + 2], f"d{k}", torch.ones(1))
    assert list(downlink.bases) == [f"d{k}" for k in range(MAX_BASES)]
    assert (downlink.known_to(0), downlink.known_to(2), downlink.known_to(99)) == (None, "d0", None)


@pytest.mark.parametrize("missed", [1, 6])
def test_a_client_that_missed_rounds_gets_a_patch_of_what_it_still_holds(missed):
    fleet = Fleet()
    fleet.round()
    fleet.silent = {1}
    for _ in range(missed):
        assert list(fleet.round().weights) == [0]
    fleet.silent = set()
    record = fleet.round()
    assert fleet.broadcast(1).payload.form == "patch"
    assert fleet.broadcast(1).patched != fleet.broadcast(0).patched
    assert list(record.weights) == [0, 1]


def drawn(fleet: Fleet, rounds: int) -> list[list[int]]:
    found = []
    for _ in range(rounds):
        found.append(sorted(fleet.server.open_round()))
        fleet.server.close_round({})
    return found


def test_participation_is_a_seeded_draw():
    fleet = Fleet(4, participation=0.5)
    found = drawn(fleet, 12)
    assert all(len(clients) == 2 for clients in found)
    assert {k for clients in found for k in clients} == {0, 1, 2, 3}
    assert len({tuple(clients) for clients in found}) > 2
    assert drawn(Fleet(4, participation=0.5), 12) == found
    assert drawn(Fleet(4, participation=0.5, seed=1), 12) != found
    again = Fleet(4, participation=0.5)
    again.server.state.round = 6
    assert drawn(again, 7) == found[5:]
    assert all(len(clients) == 1 for clients in drawn(Fleet(4, participation=0.01), 3))


def test_rounds_with_a_part_of_the_clients():
    fleet = Fleet(3, participation=0.4, budget={"fraction": 0.5, "grant": "lagged"})
    forms = []
    for _ in range(6):
        record = fleet.round()
        assert set(record.weights) == set(fleet.sent[0])
        forms += [fleet.broadcast(k).payload.form for k in fleet.sent[0]]
    assert set(forms) == {"values", "patch"}


@pytest.mark.parametrize("budget", [{}, {"fraction": 0.3}])
def test_a_restored_server_gets_the_same_bytes_again(budget):
    """The server dies after a round whose checkpoint it never wrote; the clients have gone on."""
    fleet = Fleet(budget=budget, weighting="reward-std", server_optimizer="momentum")
    fleet.round()
    checkpoint = deepcopy(fleet.server.state)
    fleet.round()
    said, master = (fleet.sent, fleet.answered), fleet.server.state.master
    for clear in (False, True):
        fleet.server = fleet.serve(deepcopy(checkpoint))
        if clear:
            for client in fleet.clients.values():
                client.state = replace(client.state, replies=())
        fleet.round()
        assert (fleet.sent, fleet.answered) == said
        assert torch.equal(fleet.server.state.master, master)


def test_opening_a_round_again_gives_the_same_messages():
    fleet = Fleet(4, participation=0.5, budget={"fraction": 0.5, "grant": "lagged"}, local="scaffold")
    fleet.round()
    assert fleet.server.open_round() == fleet.server.open_round()


@pytest.mark.parametrize("local", ["scaffold", "fedadamw", "fedprox", "fednova"])
def test_vectors_of_local_methods_travel(local):
    fleet = Fleet(local=local, local_options={"mu": 0.0, "alpha": 0.0})
    plain = Fleet()
    for _ in range(2):
        record, reference = fleet.round(), plain.round()
        assert [s.reason for s in record.screened] == [None, None]
    names = {"scaffold": {"control"}, "fedadamw": {"second_means", "global_step"}}.get(local, set())
    assert set(fleet.broadcast(0).extras) == names
    assert reference.weights == record.weights
    if local in ("scaffold", "fedprox"):
        same = torch.equal(fleet.server.state.master, plain.server.state.master)
        assert same == (local == "fedprox")


def test_fednova_with_equally_many_updates_is_fedavg():
    fleet, plain = Fleet(local="fednova"), Fleet()
    fleet.round(), plain.round()
    assert [fleet.upload(k).signal.updates for k in (0, 1)] == [2, 2]
    torch.testing.assert_close(fleet.server.state.master, plain.server.state.master, rtol=0, atol=1e-6)
