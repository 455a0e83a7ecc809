"""Runs over a grid in this process: the same bits as without one; slow and bad clients."""

from __future__ import annotations

import pytest

import hanse
from tests.end_to_end.small import small_recipe, without_times
from tests.runtime.flower.world import World, flower_recipe

BUDGET = ("federation.budget.fraction=0.3", "policy.dtype=bfloat16")


@pytest.mark.parametrize("federation", [(), BUDGET], ids=["plain", "reports and grants, patches"])
def test_the_same_bits_and_metrics_as_local(tmp_path, federation):
    local = hanse.train(small_recipe(*federation), out=tmp_path)
    world = World(tmp_path / "nodes")
    run = world.train(flower_recipe(*federation), tmp_path)
    assert run.summary["policy_sha256"] == local.summary["policy_sha256"]
    assert run.summary["bytes"] == local.summary["bytes"]
    for kind in ("round", "step"):
        assert without_times(run.metrics(kind)) == without_times(local.metrics(kind))
    assert world.said == ["level-1 is here.", "level-2 is here."]
