"""Rollouts of a run: counted as they were sampled."""

from __future__ import annotations

from typing import Any, cast

import pytest

from hanse.recipe.load import load_recipe
from hanse.runs.study.jobs import Job
from hanse.runs.study.records import record

RECIPE = load_recipe({"grpo": {"prompts_per_step": 4, "group_size": 8}})


class Folder:
    """A run of the given steps; no evaluation."""

    def __init__(self, steps: list[dict[str, Any]]) -> None:
        self.steps = steps

    def summary(self) -> dict[str, Any]:
        return {}

    def metrics(self, kind: str) -> list[dict[str, Any]]:
        return self.steps if kind == "step" else []


class Finished:
    seed, start, place, recipe = 0, None, "runs/a/seed-0", RECIPE

    def __init__(self, *steps: dict[str, Any]) -> None:
        self.folder = Folder(list(steps))


@pytest.mark.parametrize(
    ("steps", "rollouts"),
    [
        ([{"rollouts": 28}, {"rollouts": 40}], 68),
        ([{"rollouts": 56, "resampled_groups": 3}], 56),
        ([{"resampled_groups": 3}, {}], 7 * 8 + 4 * 8),
        ([], 0),
    ],
)
def test_rollouts(steps: list[dict[str, Any]], rollouts: int) -> None:
    assert record(cast(Job, Finished(*steps)), [])["rollouts"] == rollouts
