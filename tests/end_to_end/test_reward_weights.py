"""Rewards weighed by hypergradient in a federation, stopped and gone on with."""

from __future__ import annotations

import json

import pytest

import hanse
from tests.end_to_end.small import StopAfter, small_recipe, without_times


def rows_of(folder):
    return without_times([json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()])


def test_weights_move_and_a_resumed_run_is_the_same(tmp_path):
    recipe = small_recipe("grpo.reward_weights.type=hypergradient", "grpo.reward_weights.rate=1.0")
    whole = hanse.train(recipe, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        hanse.train(recipe, out=tmp_path / "cut", progress=StopAfter(2))
    (cut,) = (tmp_path / "cut").iterdir()
    resumed = hanse.resume(cut)
    assert resumed.summary["policy_sha256"] == whole.summary["policy_sha256"]
    rows = rows_of(whole.folder)
    assert rows == rows_of(cut)
    moved = [row["rewards/digits/weight"] for row in rows if "rewards/digits/weight" in row]
    assert len(set(moved)) > 2 and all(0.02 <= weight <= 0.98 for weight in moved)
