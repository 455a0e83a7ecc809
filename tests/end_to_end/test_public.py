"""Public steps in whole runs."""

from __future__ import annotations

import pytest

import hanse
from hanse.runtime.host import client_data, public_problems, server_problems
from hanse.tasks.build import recipe_task
from hanse.tasks.owned import key_of
from tests.end_to_end.small import StopAfter, small_recipe, without_times

PUBLIC = {"problems": 12, "per_round": 6, "every": 2, "below": 1.0, "correct": 0.2}


def recipe_of(*overrides: str, **public):
    return small_recipe(*overrides, federation={"public": PUBLIC | public})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return hanse.train(recipe_of(), out=tmp_path_factory.mktemp("whole"))


def test_every_second_round_shares_answers_and_counts_them(whole):
    rows = whole.metrics("round")[1:]
    assert ["public/shown" in row for row in rows] == [False, True, False]
    private, public = 2 * 2 * 16, 2 * 6 * 4  # clients × steps × rollouts; clients × problems × rollouts
    assert [row["rollouts"] for row in rows] == [private, private + public, private]
    shared = rows[1]
    assert shared["public/swapped"] > 0
    assert 0 < shared["comm/public_bytes_up"] < shared["comm/bytes_up"]
    assert 0 < shared["comm/public_bytes_down"] < shared["comm/bytes_down"]
    steps = [row["step"] for row in whole.metrics("step") if row["round"] == 2]
    assert steps == [0, 1, 2] * 2
    assert whole.summary["counters"]["refused_uploads"] == 0


def test_a_resumed_run_is_the_same_bits(whole, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        hanse.train(recipe_of(), out=tmp_path, progress=StopAfter(1))
    (folder,) = tmp_path.iterdir()
    resumed = hanse.resume(folder)
    assert resumed.summary["policy_sha256"] == whole.summary["policy_sha256"]
    assert without_times(resumed.metrics("round")) == without_times(whole.metrics("round"))


def test_side_by_side_is_the_same_bits(whole, tmp_path):
    pool = hanse.train(recipe_of("runtime.workers=2"), out=tmp_path)
    assert pool.summary["policy_sha256"] == whole.summary["policy_sha256"]
    assert pool.summary["bytes"] == whole.summary["bytes"]


def test_a_public_part_that_is_not_used_changes_no_bit(tmp_path):
    plain = hanse.train(small_recipe("rounds=1"), out=tmp_path / "plain")
    never = hanse.train(recipe_of("rounds=1", every=0), out=tmp_path / "never")
    assert never.summary["policy_sha256"] == plain.summary["policy_sha256"]
    assert never.summary["bytes"] == plain.summary["bytes"]


def test_public_problems_are_nobodys_own():
    recipe = recipe_of(problems=40).model_copy()
    task = recipe_task(recipe)
    audited = small_recipe(federation={"public": PUBLIC, "audit": {"problems": 8}})
    for one in (recipe, audited):
        owned = server_problems(one, task)
        public = {key_of(p) for p in public_problems(one, task, owned)}
        private = {key_of(p) for part in client_data(one, task) for p in part.problems}
        assert len(public) == (40 if one is recipe else 12)
        assert not public & private
        assert not public & {key_of(p) for p in owned}
        assert {p.metadata["level"] for p in public_problems(one, task, owned)} == {1, 2}
