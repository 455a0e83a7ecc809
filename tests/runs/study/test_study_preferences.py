"""What a study tells of reward models."""

from __future__ import annotations

import pytest

from hanse.runs.study.preferences import of_arm, of_run

SUMMARY = {
    "reward_model": {"accuracy_before": 0.9, "worst_before": 0.9, "distance": 1.5, "rand_index": None},
    "evaluation": {"final": {"accuracy_greedy": 0.5, "by_level_greedy": {"0": 0.7, "1": 0.3}}},
}


def test_before_local_steps_held_out_pairs_count():
    told = of_run(SUMMARY)
    assert told is not None
    assert (told["accuracy_before"], told["worst_before"], told["distance"]) == (0.5, 0.3, 1.5)
    assert told["rand_index"] is None


def test_other_modes_tell_nothing():
    assert of_run({"evaluation": {"final": {"accuracy_greedy": 0.5}}}) is None
    assert of_arm([{"accuracy": 0.5}]) is None


def test_an_arm_is_the_mean_of_what_is_known():
    runs = [{"reward_model": {"distance": d, "rand_index": None}} for d in (1.0, 3.0)]
    told = of_arm(runs)
    assert told is not None
    assert told["distance"]["mean"] == pytest.approx(2.0)
    assert "rand_index" not in told
