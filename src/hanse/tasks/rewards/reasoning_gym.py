"""The score of a reasoning-gym generator for its own problems."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from hanse.tasks.optional import require
from hanse.tasks.packing import unpack
from hanse.tasks.rewards.batch import RewardFunction, tagged, text_of


def build(*, tag: str | None = None) -> RewardFunction:
    """The generator's `score_answer`, 0 to 1, on the columns that the task `reasoning-gym` provides.

    The answer is the completion, stripped, or with `tag` what stands between the last <tag> and </tag>.
    None for problems that no generator made. Raises RecipeError without the extra `data`.
    """
    gym = require("reasoning_gym", "data", "rewards")

    @lru_cache(maxsize=256)
    def scorer(generator: str, configuration: str) -> Any:
        return gym.create_dataset(generator, **json.loads(configuration))

    def one(completion: Any, generator: str | None, configuration: Any, entry: Any) -> float | None:
        if generator is None or entry is None:
            return None
        text = text_of(completion)
        answer = text.strip() if tag is None else tagged(text, tag)
        made = scorer(generator, json.dumps(configuration, sort_keys=True))
        return float(made.score_answer(answer, unpack(entry)))

    def reasoning_gym(
        completions: Sequence[Any], generator: Any, configuration: Any, entry: Any, **_: Any
    ) -> list[float | None]:
        return [one(*row) for row in zip(completions, generator, configuration, entry, strict=True)]

    return reasoning_gym
