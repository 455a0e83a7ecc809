"""Rounds under a robust rule: liars, absences, refusals, and what a checkpoint holds."""

from __future__ import annotations

import pytest
import torch

from hanse.errors import RunError
from hanse.federation.records import ServerState
from hanse.federation.server import Server
from hanse.recipe.federation import FederationSpec
from hanse.recipe.robust import RobustSpec
from hanse.runs.cohorts import Cohort, load_cohorts, save_cohorts
from tests.federation.fleet import Fleet
from tests.federation.liars import lying, values

KRUM = {"rule": "krum", "byzantine": 1}


def fleet(clients: int = 5, **robust) -> Fleet:
    return Fleet(clients, "float32", robust=robust or KRUM)


def test_a_long_update_is_no_refusal_and_has_no_weight():
    team = fleet()
    master = team.server.state.master.clone()
    record = team.round(lying(team, values(master + 10.0)))
    assert all(s.reason is None for s in record.screened)
    assert record.weights[0] == 0
    assert sum(record.weights.values()) == 1
    assert float((team.server.state.master - master).abs().max()) < 1


def test_a_missing_client_keeps_the_model_and_is_counted():
    team = fleet()
    team.silent = {3}
    master = team.server.state.master.clone()
    record = team.round()
    assert record.weights == {}
    assert torch.equal(team.server.state.master, master)
    assert team.server.state.round == 1
    assert team.server.least == 5
    assert dict(team.server.state.ledger) == {
        'round: 4 usable uploads, 0 refused; "krum" needs 5 against 1 more liars': 1
    }
    team.silent = set()
    assert team.round().weights != {}
    assert team.server.state.round == 2


def test_a_refused_upload_is_a_liar_found():
    """One bad message of five cannot stop a rule that withstands one liar."""
    team = fleet()

    def broken(messages):
        return {**team.send(messages), 2: b"nonsense"}

    record = team.round(broken)
    assert set(record.weights) == {0, 1, 3, 4}
    assert team.server.state.round == 2
    two = fleet()
    assert two.round(lambda m: {**two.send(m), 2: b"nonsense", 3: b""}).weights != {}
    team.silent = {0, 4}
    assert team.round(broken).weights == {}


def test_a_refused_honest_client_spends_nothing_of_f_where_there_are_enough():
    """Two liars far away and one honest message that was damaged, f = 2: the second liar is trimmed too."""
    team = fleet(7, rule="trimmed-mean", byzantine=2)
    master = team.server.state.master.clone()

    def heard(messages):
        first = lying(team, values(master + 10.0))(messages)
        return {**first, 1: lying(team, values(master + 10.0), 1)(messages)[1], 4: b"damaged"}

    record = team.round(heard)
    assert {s.client for s in record.screened if s.reason is not None} == {4}
    assert float((team.server.state.master - master).abs().max()) < 1


def test_one_client_without_a_rule_is_as_it_was():
    plain, named = Fleet(1, "float32"), Fleet(1, "float32", robust={"rule": "none", "byzantine": 3})
    plain.round()
    named.round()
    assert torch.equal(plain.server.state.master, named.server.state.master)
    assert named.server.least == 0


def test_centred_clipping_resumes_with_what_it_remembers(tmp_path):
    team = fleet(rule="centred-clipping", byzantine=1)
    team.round()
    save_cohorts(tmp_path, [Cohort(team.server)])
    restored = Cohort(team.serve(ServerState(team.world.master.clone())))
    load_cohorts(tmp_path, [restored])
    assert torch.equal(restored.server.state.robust["last"], team.server.state.robust["last"])
    assert float(restored.server.state.robust["last"].abs().max()) > 0
    team.round()
    answers = team.answered[-1]
    restored.server.open_round()
    restored.server.close_round(answers)
    assert torch.equal(restored.server.state.master, team.server.state.master)


def rooted(team: Fleet, root) -> Server:
    layout = team.world.layout("float32")
    state = ServerState(team.world.master.clone())
    spec = FederationSpec(robust=RobustSpec(rule="fltrust"))
    return Server(spec, layout, list(team.clients), state, group_size=4, root=root)


def test_fltrust_follows_the_servers_own_update():
    """The root is one client's own update, which is trusted whole: no other has a larger share of it."""
    team = Fleet(3, "float32")
    team.round()
    sent = {k: team.upload(k) for k in team.clients}
    asked = []

    def root(round: int, base: torch.Tensor) -> torch.Tensor:
        asked.append(round)
        return torch.frombuffer(bytearray(sent[1].payload.data), dtype=torch.float32) - base

    server = rooted(team, root)
    server.open_round()
    record = server.close_round(team.answered[-1])
    assert asked == [1]
    shares = {s.client: record.weights[s.client] * s.norm for s in record.screened}
    assert shares[1] == max(shares.values()) > 0


def test_fltrust_without_a_root_is_told_at_once():
    with pytest.raises(RunError, match=r'"fltrust" needs an update'):
        rooted(Fleet(3, "float32"), None)
