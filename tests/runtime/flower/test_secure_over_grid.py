"""Secure sums through Flower: nodes that forget everything between two messages but what is on their disk."""

from __future__ import annotations

import hanse
from tests.end_to_end.small import small_recipe
from tests.runtime.flower.world import World, flower_recipe

SECURE = ("federation.secure.enabled=true", "rounds=2")
THREE = {"partition": {"clients": 3, "by": "iid"}}


def test_the_same_bits_as_local(tmp_path):
    local = hanse.train(small_recipe(*SECURE, **THREE), out=tmp_path)
    run = World(tmp_path / "nodes").train(flower_recipe(*SECURE, **THREE), tmp_path)
    assert run.summary["policy_sha256"] == local.summary["policy_sha256"]
    assert run.summary["bytes"] == local.summary["bytes"]
