"""Rewards weighed by hypergradient in a federation, stopped and gone on with."""

from __future__ import annotations

import pytest

import hanse
from tests.end_to_end.small import StopAfter, small_recipe, without_times


def test_weights_move_and_a_resumed_run_is_the_same(tmp_path):
    recipe = small_recipe("grpo.reward_weights.type=hypergradient", "grpo.reward_weights.rate=1.0")
    whole = hanse.train(recipe, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        hanse.train(recipe, out=tmp_path / "cut", progress=StopAfter(2))
    (folder,) = (tmp_path / "cut").iterdir()
    resumed = hanse.resume(folder)
    assert resumed.summary["policy_sha256"] == whole.summary["policy_sha256"]
    rows = without_times(whole.metrics("step"))
    assert rows == without_times(resumed.metrics("step"))
    weights = [row["rewards/digits/weight"] for row in rows]
    assert len(set(weights)) > 2 and all(0.02 <= weight <= 0.98 for weight in weights)
