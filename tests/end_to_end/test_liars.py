"""Lying clients in whole runs: the same lies side by side and after a restart; nobody else changes a bit."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

import hanse
from tests.end_to_end.small import StopAfter, small_recipe, without_times

FOUR = {
    "rounds": 3,
    "partition": {"clients": 4, "by": "iid"},
    "evaluation": {"every": 3, "problems_per_level": 2, "samples": 1},
}
COLLUDING = ("adversary.clients=[1,2]", "adversary.attack=min-max", "adversary.knowledge=all")
OPTIONS = {
    "collusion": COLLUDING,
    "sparse": (*COLLUDING, "federation.budget.fraction=0.3", "policy.dtype=bfloat16"),
    "replay": ("adversary.clients=[1]", "adversary.attack=replay", "adversary.signal=inflated"),
    "audited": (
        *("adversary.clients=[1]", "adversary.attack=none", "adversary.trains=reward-flip"),
        *("adversary.knows_probe=true", "federation.audit.problems=8", "federation.robust.rule=fltrust"),
    ),
    "free-rider": ("adversary.clients=[3]", "adversary.attack=free-rider"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Uninterrupted runs, made once."""
    made = {}

    def run(name: str, *more: str):
        if (name, more) not in made:
            recipe = small_recipe(*OPTIONS.get(name, ()), *more, **FOUR)
            made[name, more] = hanse.train(recipe, out=tmp_path_factory.mktemp(name))
        return made[name, more]

    return run


def same(one, other) -> bool:
    first, second = (run.folder / "policy" / "model.safetensors" for run in (one, other))
    a, b = load_file(first), load_file(second)
    return all(torch.equal(a[name], b[name]) for name in a)


def rounds(run):
    return without_times(run.metrics("round"))


def test_lies_are_the_same_side_by_side(whole, tmp_path):
    pool = hanse.train(small_recipe(*COLLUDING, "runtime.workers=2", **FOUR), out=tmp_path / "pool")
    assert same(whole("collusion"), pool)
    assert rounds(whole("collusion")) == rounds(pool)


@pytest.mark.parametrize("name", ["sparse", "replay", "free-rider", "audited"])
def test_lies_go_on_where_they_were(name, whole, tmp_path):
    recipe = small_recipe(*OPTIONS[name], **FOUR)
    with pytest.raises(KeyboardInterrupt):
        hanse.train(recipe, out=tmp_path, progress=StopAfter(1))
    (folder,) = tmp_path.iterdir()
    assert rounds(hanse.resume(folder)) == rounds(whole(name))


def test_honest_clients_say_in_the_first_round_what_they_say_without_liars(whole):
    """Liars hear everything and change what they say themselves, nothing else."""
    lied, plain = rounds(whole("collusion"))[1], rounds(whole("plain"))[1]
    for client, same in {"client-1": True, "client-4": True, "client-2": False}.items():
        key = f"clients/{client}/update_norm"
        assert (lied[key] == plain[key]) == same
    assert lied["clients/client-2/update_norm"] == lied["clients/client-3/update_norm"]


def test_a_sparse_lie_keeps_to_its_grant(whole):
    for row in rounds(whole("sparse"))[1:]:
        assert not [key for key in row if key.endswith("/refused")]


def test_absent_clients_are_no_part_of_it(whole, tmp_path):
    without = whole("absent", "adversary.clients=[0]", "adversary.attack=absent")
    row = rounds(without)[-1]
    assert "clients/client-1/weight" not in row
    assert sum(row[f"clients/client-{k}/weight"] for k in (2, 3, 4)) == pytest.approx(1)


def test_what_the_server_keeps_nobody_trains_on_and_its_audit_is_in_the_summary(whole):
    run = whole("audited")
    told = run.summary["defence"]
    assert set(told["trust"]) == {f"client-{k}" for k in (1, 2, 3, 4)}
    assert 0 <= told["auc"] <= 1
    plain = sum(row["problems"] for row in read_json(whole("plain"), "partition.json"))
    kept = sum(row["problems"] for row in read_json(run, "partition.json"))
    assert plain - 16 <= kept <= plain - 8  # mirrored sums go with theirs


def test_poison_is_looked_for_in_what_is_evaluated(whole):
    run = whole("poison", "adversary.clients=[0,1]", "adversary.attack=none", "adversary.trains=poison")
    assert 0 <= run.summary["evaluation"]["final"]["attack_success"] <= 1
    assert "evaluation/attack_success" in rounds(run)[-1]
    assert "attack_success" not in whole("plain").summary["evaluation"]["final"]


def read_json(run, name):
    return json.loads((run.folder / name).read_text())["rows"]
