"""A round with too few usable uploads changes nothing, and is the same round when it is asked for again."""

from __future__ import annotations

from copy import deepcopy

import torch

from hanse.recipe.federation import FederationSpec
from tests.federation.fleet import Fleet


def fleet_of(clients: int, needed: int, spare: int = 0, **federation) -> Fleet:
    fleet = Fleet(clients, **federation)
    fleet.server.needed, fleet.server.spare = needed, spare
    return fleet


def test_a_missed_quorum_keeps_the_model_and_the_round():
    fleet = fleet_of(3, needed=2)
    before, master = deepcopy(fleet.server.state), fleet.server.state.master.clone()
    fleet.silent = {0, 1}
    record = fleet.round()
    assert (record.round, record.weights) == (1, {})
    assert [s.client for s in record.screened] == [2]
    state = fleet.server.state
    assert torch.equal(state.master, master)
    assert (state.round, state.reported, state.downlink.held) == (1, before.reported, before.downlink.held)


def test_the_retried_round_equals_one_that_nobody_missed():
    plain, patient = fleet_of(3, needed=1), fleet_of(3, needed=3)
    plain.round()
    patient.silent = {0, 1}
    assert patient.round().weights == {}
    first = patient.sent[0]
    patient.silent = set()
    record = patient.round()
    assert patient.sent[0] == first
    assert sorted(record.weights) == [0, 1, 2]
    assert torch.equal(patient.server.state.master, plain.server.state.master)
    assert patient.round().round == 2


def test_refused_uploads_do_not_count_for_the_quorum():
    fleet = fleet_of(2, needed=2)
    record = fleet.round(lambda messages: fleet.send(messages) | {1: b"garbage"})
    assert record.weights == {}
    assert [s.reason is None for s in record.screened] == [True, False]
    assert sum(fleet.server.state.ledger.values()) == 1


def test_spare_clients_are_drawn_from_the_same_order():
    few = fleet_of(5, needed=1, participation=0.4)
    more = fleet_of(5, needed=1, spare=2, participation=0.4)
    few.round(), more.round()
    assert len(few.sent[0]) == 2
    assert len(more.sent[0]) == 4
    assert set(few.sent[0]) < set(more.sent[0])
    assert FederationSpec(participation=0.4).wanted(5) == 2
