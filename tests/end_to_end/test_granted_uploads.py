"""Clients that share a process and wait for grants send what they have learnt themselves."""

from __future__ import annotations

import pytest

import hanse
from tests.end_to_end.small import small_recipe


@pytest.mark.parametrize("feedback", ["upload", "off"])
def test_updates_of_clients_that_wait_for_a_grant_differ(tmp_path, feedback):
    budget = ("federation.budget.fraction=1.0", f"federation.budget.error_feedback={feedback}")
    granted = hanse.train(small_recipe(*budget, rounds=1), out=tmp_path / "granted").metrics()[1]
    at_once = hanse.train(small_recipe(rounds=1), out=tmp_path / "at_once").metrics()[1]
    for key in ("clients/level-1/update_norm", "clients/level-2/update_norm"):
        assert granted[key] == pytest.approx(at_once[key])
    assert granted["federation/cosine/level-1/level-2"] < 0.999
