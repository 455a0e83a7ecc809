"""A trained reward model: the one reward that is a model itself, loaded only where it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hanse.tasks.rewards.batch import RewardFunction


def build(
    *,
    path: str,
    pairs: str | None = None,
    steps: int | None = None,
    max_tokens: int | None = None,
    batch: int = 64,
    device: str = "auto",
) -> RewardFunction:
    """The Bradley–Terry score of each completion by the model in the folder `path`.

    `pairs`: a JSONL file of one's own preferences, to which the model is adapted first, by `steps` steps
    (None: as its clients were). `max_tokens`: of a completion are read, at most as many as the model was
    trained with; `batch`: completions at once. Raises RecipeError for a folder or a file that is no good,
    ValueError for numbers below 1.
    """
    for name, number in (("steps", steps), ("max_tokens", max_tokens), ("batch", batch)):
        if number is not None and (type(number) is not int or number < 1):
            raise ValueError(f"{name} must be a whole number from 1 up, not {number!r}")
    scoring: Any = import_module("hanse.reward_model.scoring")
    function: RewardFunction = scoring.build(path, pairs, steps, max_tokens, batch, device)
    return function
