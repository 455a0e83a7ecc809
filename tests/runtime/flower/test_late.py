"""Field case F-7: late answers over a grid, discarded or weighed by their staleness, and recorded."""

from __future__ import annotations

import json

import pytest

import hanse
from hanse.runtime.flower.exchange import Post
from tests.end_to_end.small import StopAfter, small_recipe, without_times
from tests.runtime.flower.test_faults import Heard, holding, is_exchange
from tests.runtime.flower.world import World, flower_recipe

WEIGH = {"late": "weigh", "quorum": 1}
SECOND = "clients/level-2"


def test_where_nobody_is_late_weighing_changes_no_bit(tmp_path):
    local = hanse.train(small_recipe(), out=tmp_path)
    run = World(tmp_path / "nodes").train(flower_recipe(runtime=WEIGH), tmp_path)
    assert run.summary["policy_sha256"] == local.summary["policy_sha256"]
    assert without_times(run.metrics("round")) == without_times(local.metrics("round"))
    assert {name: run.summary["counters"][name] for name in ("late_weighed", "late_discarded")} == {
        "late_weighed": 0,
        "late_discarded": 0,
    }


def late_in_the_second_round(world):
    """The second node's answer to the first round comes while the second is open, which it misses too."""

    def disturb(grid, hands):
        def held(message):
            return (is_exchange(message, 1) and hands.time < 32) or is_exchange(message, 2)

        grid.held = held

    world.disturb = disturb
    return world


def test_f7_a_late_upload_counts_less_in_the_next_round(tmp_path):
    world, heard = late_in_the_second_round(World(tmp_path / "nodes")), Heard()
    recipe = flower_recipe(
        "federation.weighting=uniform", "policy.dtype=bfloat16", runtime=WEIGH | {"staleness": 2.0}
    )
    run = world.train(recipe, tmp_path, progress=heard)
    first, second, *_ = run.metrics("round")[1:]
    assert f"{SECOND}/weight" not in first
    assert second[f"{SECOND}/staleness"] == 1
    assert [second["clients/level-1/weight"], second[f"{SECOND}/weight"]] == [0.8, 0.2]  # 1 to (1 + 1)^-2
    assert run.summary["counters"]["late_weighed"] == 1
    assert run.summary["counters"]["late_replies"] == 1
    assert any("answered 1 exchanges too late; kept for this round" in text for text in heard.warnings)
    assert "weighed in a later round than its own" in (run.folder / "report.html").read_text()


def test_f7_what_a_client_answers_in_time_counts_instead_of_what_came_late(tmp_path):
    world = World(tmp_path / "nodes", holding(1, until=32))
    run = world.train(flower_recipe(runtime=WEIGH), tmp_path)
    counters = run.summary["counters"]
    assert (counters["late_replies"], counters["late_weighed"], counters["late_discarded"]) == (1, 0, 1)
    assert not any(name.endswith("/staleness") for row in run.metrics("round") for name in row)


def test_f7_of_two_late_uploads_the_newer_counts_whichever_comes_first(tmp_path):
    def disturb(grid, hands):
        def held(message):
            early = is_exchange(message, 1) or is_exchange(message, 2)
            return (early and hands.time < 62) or is_exchange(message, 3)

        grid.held = held

    run = World(tmp_path / "nodes", disturb).train(flower_recipe(runtime=WEIGH), tmp_path)
    assert run.metrics("round")[3][f"{SECOND}/staleness"] == 1
    counters = run.summary["counters"]
    assert (counters["late_replies"], counters["late_weighed"], counters["late_discarded"]) == (2, 1, 1)
    post = Post(None, None, "", 1.0, 1, keeps=True)
    for number, frame in ((2, b"newer"), (1, b"older")):
        post._hold(0, number, frame)
    assert (post.take(), post.counts["late_discarded"]) == ({0: b"newer"}, 1)


def test_f7_spare_answers_of_over_selection_count_in_the_next_round(tmp_path):
    runtime = WEIGH | {"over_select": 1}
    recipe = flower_recipe(
        runtime=runtime, partition={"clients": 3, "by": "iid"}, federation={"participation": 0.4}, rounds=4
    )
    run = World(tmp_path / "nodes").train(recipe, tmp_path)
    counters = run.summary["counters"]
    assert counters["late_replies"] == 4
    assert counters["late_weighed"] >= 1
    assert counters["late_weighed"] + counters["late_discarded"] == 3  # the last round's come to nothing
    stale = [row for row in run.metrics("round") if any(name.endswith("/staleness") for name in row)]
    assert len(stale) == counters["late_weighed"]


def test_what_is_late_when_a_server_stops_is_lost_and_counted(tmp_path):
    world, heard = late_in_the_second_round(World(tmp_path / "nodes")), Heard()
    with pytest.raises(KeyboardInterrupt):
        world.train(flower_recipe(runtime=WEIGH), tmp_path, progress=StopAfter(1))
    saved = json.loads((tmp_path / "small-001" / "rounds" / "000001" / "flower.json").read_text())
    assert saved["late"] == 1
    world.disturb = lambda grid, hands: None
    run = world.resume(tmp_path / "small-001", progress=heard)
    assert run.summary["counters"]["late_lost"] == 1
    assert any("1 late answers outstanding, which are lost" in text for text in heard.warnings)
    assert all(f"{SECOND}/staleness" not in row for row in run.metrics("round"))
    assert run.metrics("round")[2][f"{SECOND}/weight"] > 0
