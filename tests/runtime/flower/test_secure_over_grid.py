"""Secure sums through Flower: nodes that forget everything between two messages but what is on their disk."""

from __future__ import annotations

import hanse
from tests.end_to_end.small import small_recipe
from tests.runtime.flower.test_faults import FIRST, is_exchange
from tests.runtime.flower.world import World, flower_recipe

SECURE = ("federation.secure.enabled=true", "rounds=2")
THIRD = 1003
THREE = {"partition": {"clients": 3, "by": "iid"}}


def test_the_same_bits_as_local(tmp_path):
    local = hanse.train(small_recipe(*SECURE, **THREE), out=tmp_path)
    run = World(tmp_path / "nodes").train(flower_recipe(*SECURE, **THREE), tmp_path)
    assert run.summary["policy_sha256"] == local.summary["policy_sha256"]
    assert run.summary["bytes"] == local.summary["bytes"]


def test_a_client_that_a_sum_needs_is_waited_for_whatever_the_quorum(tmp_path):
    """It is back within the deadline, so no attempt is spent."""

    def disturb(grid, hands):
        def leaves(message):
            if is_exchange(message, 5, FIRST) and not hands.then and THIRD not in grid.away:  # of round 2
                grid.away.add(THIRD)
                hands.then[hands.time + 20] = grid.away.clear
            return is_exchange(message, 5, THIRD) and THIRD in grid.away

        grid.held = leaves

    world = World(tmp_path / "nodes", disturb)
    run = world.train(flower_recipe(*SECURE, runtime={"quorum": 2}, **THREE), tmp_path)
    assert 20 <= world.hands.time < 30
    assert [row.get("secure/living") for row in run.metrics("round")] == [None, 3, 3]
