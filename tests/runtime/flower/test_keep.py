"""A client's memory on disk: whole after a kill at any moment, two rounds deep."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from hanse.errors import RunError
from hanse.federation.wire.frame import WireError
from hanse.runtime.flower.keep import Keep, parts, whole
from tests.federation.fleet import Fleet

BUDGET = {"fraction": 0.5}
ROWS = [{"loss": 1.0}]


def same(a, b) -> bool:
    """Equal states, tensors compared by value."""
    first, second = parts(a, []), parts(b, [])
    names = first[0].keys() == second[0].keys() and first[1] == second[1]
    return names and all(torch.equal(tensor, second[0][name]) for name, tensor in first[0].items())


@pytest.mark.parametrize("budget", [{}, BUDGET])
def test_a_state_survives_the_disk_also_between_report_and_grant(tmp_path, budget):
    fleet = Fleet(budget=budget)
    fleet.round()
    broadcast = fleet.server.open_round()[0]
    fleet.answer(0, broadcast)
    state = fleet.clients[0].state
    assert (state.trained is not None) == bool(budget)
    tensors, fields = parts(state, ROWS)
    assert same(whole(tensors, fields), state)
    keep = Keep(tmp_path / "c")
    keep.note(fleet.clients[0], ROWS)
    fresh = Fleet(budget=budget).clients[0]
    again = Keep(tmp_path / "c")
    again.recall(fresh)
    assert same(fresh.state, state)
    assert again.rows == ROWS
    fleet.clients[0] = fresh
    assert fleet.answer(0, broadcast) == state.replies[0]


def test_two_rounds_are_kept_and_the_older_is_found_again(tmp_path):
    fleet, keep = Fleet(), Keep(tmp_path / "c")
    asked, answers, states = [], [], []
    for _ in range(3):
        fleet.round()
        asked.append(fleet.sent[0][0])
        answers.append(fleet.answered[0][0])
        states.append(fleet.clients[0].state)
        keep.note(fleet.clients[0], [])
    assert sorted(p.name for p in (tmp_path / "c").iterdir()) == [
        "round-000002.safetensors",
        "round-000003.safetensors",
    ]
    fresh = Fleet().clients[0]
    Keep(tmp_path / "c").recall(fresh)
    assert same(fresh.earlier, states[1])
    fresh.state = replace(fresh.state, base_digest="another", replies=())
    fleet.clients[0] = fresh
    assert fleet.answer(0, asked[2]) == answers[2]  # trained again, from the state before it
    with pytest.raises(WireError, match="asked for round 2, but round 3 is done"):
        fleet.answer(0, asked[1])


def test_a_new_client_has_no_past_and_its_first_round_can_be_asked_again(tmp_path):
    fleet = Fleet()
    start = fleet.clients[0].state
    Keep(tmp_path / "none").recall(fleet.clients[0])
    assert fleet.clients[0].state is start and fleet.clients[0].earlier is None
    fleet.round()
    Keep(tmp_path / "c").note(fleet.clients[0], [])
    fresh = Fleet().clients[0]
    Keep(tmp_path / "c").recall(fresh)
    assert same(fresh.earlier, start)


def test_what_another_process_wrote_is_read_and_what_this_one_wrote_is_not(tmp_path):
    fleet, here, there = Fleet(), Keep(tmp_path / "c"), Keep(tmp_path / "c")
    fleet.round()
    here.note(fleet.clients[0], [])
    held = fleet.clients[0].state
    here.recall(fleet.clients[0])
    assert fleet.clients[0].state is held
    fleet.round()
    there.note(fleet.clients[0], ROWS)
    stale = Fleet().clients[0]
    here.recall(stale)
    assert stale.state.round == 2 and here.rows == ROWS


def test_a_half_written_file_is_not_there_and_a_damaged_one_is_told(tmp_path):
    fleet, keep = Fleet(), Keep(tmp_path / "c")
    fleet.round()
    keep.note(fleet.clients[0], [])
    (tmp_path / "c" / ".round-000002.safetensors.1.tmp").write_bytes(b"half")
    fresh = Fleet().clients[0]
    Keep(tmp_path / "c").recall(fresh)
    assert fresh.state.round == 1
    (tmp_path / "c" / "round-000001.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(RunError, match="cannot be read"):
        Keep(tmp_path / "c").recall(fresh)
