"""A run of a few seconds: two levels, a policy of a few thousand parameters, no warm-up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hanse.recipe.load import load_recipe
from hanse.recipe.model import Recipe
from hanse.runs.progress import SilentProgress

TIMES = ("time/", "step_time", "seconds")


def small_recipe(*overrides: str, **changes: Any) -> Recipe:
    document: dict[str, Any] = {
        "name": "small",
        "rounds": 3,
        "policy": {
            "type": "tiny",
            "hidden": 16,
            "layers": 1,
            "heads": 2,
            "intermediate": 32,
            "warmup": {
                "max_steps": 6,
                "noisy_steps": 2,
                "batch_size": 16,
                "until_accuracy": 1.0,
                "mix_by_level": [0.5, 0.5],
                "right_by_level": [0.5, 0.5],
            },
        },
        "task": {"type": "arithmetic", "levels": 2},
        "rewards": [
            {"path": f"{Path(__file__).parent / 'shaped.py'}:digits"},
            {"name": "exact", "weight": 1.0},
        ],
        "partition": {"clients": 2, "by": "column"},
        "grpo": {
            "group_size": 4,
            "prompts_per_step": 4,
            "local_steps": 2,
            "max_new_tokens": 5,
            "lr": 1e-3,
        },
        "evaluation": {
            "problems_per_level": 4,
            "samples": 2,
            "final_problems_per_level": 4,
            "final_samples": 2,
        },
    }
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(document.get(key), dict):
            document[key] = document[key] | value
        else:
            document[key] = value
    return load_recipe(document, overrides)


def without_times(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if not k.startswith(TIMES)} for row in rows]


class StopAfter(SilentProgress):
    """Ctrl-C, pressed when a given round has just ended."""

    def __init__(self, number: int) -> None:
        self.number = number

    def round_done(self, row: Mapping[str, Any]) -> None:
        if row["round"] == self.number:
            raise KeyboardInterrupt
