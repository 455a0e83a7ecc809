"""What summary.json says of liars and of honest clients that were taken for some."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from hanse.federation.audit import Evidence
from hanse.federation.records import ServerState
from hanse.runs.study import defence
from hanse.runs.suspects import refusals_of, suspects
from tests.end_to_end.small import small_recipe

LEDGER = {
    "client 0: update norm 12; the median is 1": 2,
    "client 1: in quarantine after 3 refusals": 1,
    "client 1: asked for whole values": 4,
    "client 11: is for round 2, not 3": 1,
    "round: 3 usable uploads, 1 refused; needs more": 1,
}
NAMES = ["a", "b", "c", "d"]
FOUR = {"partition": {"clients": 4, "by": "iid"}}


def test_refusals_are_those_of_clients_and_nothing_else():
    assert refusals_of(LEDGER) == {0: 2, 11: 1}


def state(**levels: float) -> ServerState:
    evidence = {NAMES.index(k): Evidence(lowest=level) for k, level in levels.items()}
    ledger = Counter({"client 0: why": 2, "client 2: why": 1})
    return ServerState(torch.zeros(1), evidence=evidence, ledger=ledger)


def test_nothing_to_tell_where_nobody_lies_and_nobody_is_audited():
    assert suspects(small_recipe(**FOUR), state(), NAMES) == {}


def test_liars_are_told_from_others_by_their_lowest_trust():
    recipe = small_recipe("adversary.clients=[2,3]", "federation.audit.problems=8", **FOUR)
    told = suspects(recipe, state(a=1.0, b=0.5, c=0.01, d=0.75), NAMES)["defence"]
    assert told["refused"] == {"a": 2, "c": 1}
    assert told["honest_refused"] == 1
    assert told["lowest_trust"] == {"a": 1.0, "b": 0.5, "c": 0.01, "d": 0.75}
    assert (told["auc"], told["found"]) == (0.75, 0.5)


def test_a_study_averages_what_runs_tell():
    run = {"defence": {"honest_refused": 1, "auc": 0.5}, "evaluation": {"final": {"attack_success": 0.25}}}
    told = defence.of_run(run)
    assert told == {"honest_refused": 1, "auc": 0.5, "attack_success": 0.25}
    assert defence.of_run({"evaluation": {"final": {"accuracy": 1.0}}}) is None
    arm = defence.of_arm([{"defence": told}, {"defence": {"honest_refused": 3}}, {}])
    assert arm["honest_refused"]["mean"] == 2
    assert arm["auc"]["mean"] == pytest.approx(0.5)
    assert "found" not in arm
    assert defence.of_arm([{}]) is None
