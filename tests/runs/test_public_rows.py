"""What a run tells of shared answers."""

from __future__ import annotations

from hanse.federation.public.round import LEFT_OUT
from hanse.federation.records import PublicRecord, RoundRecord
from hanse.recipe.model import GrpoSpec
from hanse.runs.health import Health
from hanse.runs.rows import refusals, round_row, take_left_out

NAMES = ["a", "b", "c"]


def test_answers_left_out_are_told_by_whose_they_were():
    answers = {0: [{"reward": 0.5}, {f"{LEFT_OUT}1": 2.0, f"{LEFT_OUT}7": 1.0}], 2: [{f"{LEFT_OUT}1": 3.0}]}
    told = take_left_out(answers, NAMES)
    assert told[0] == "b: public answers left out by its peers, as not correct: 5"
    assert told[1].startswith("client 7: ")
    assert answers == {0: [{"reward": 0.5}, {"public/left_out": 3.0}], 2: [{"public/left_out": 3.0}]}
    assert take_left_out(answers, NAMES) == []


def test_a_round_tells_what_was_shared_and_refused():
    public = PublicRecord(5, 9, [(1, "3 bytes")], 100, 200)
    record = RoundRecord(1, {}, [], 1000, 2000, public=public)
    row = round_row(1, {}, [record], NAMES)
    assert (row["public/shown"], row["public/relayed"]) == (5, 9)
    assert (row["comm/public_bytes_up"], row["comm/public_bytes_down"]) == (100, 200)
    assert refusals([record], NAMES) == ["b: public answers refused: 3 bytes"]


def test_public_steps_say_nothing_about_a_clients_own_signal():
    health = Health(GrpoSpec(degenerate_patience=2))
    flat = {"frac_reward_zero_std": 1.0}
    assert health.observe("a", flat) == []
    assert health.observe("a", {"public/reward": 0.5}) == []
    assert len(health.observe("a", flat)) == 1
