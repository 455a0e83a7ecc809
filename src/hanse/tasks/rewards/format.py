"""1 for a completion in the wanted form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hanse.tasks.rewards.batch import RewardFunction, text_of
from hanse.tasks.rewards.tagged import answer_in


def build(*, pattern: str | None = None) -> RewardFunction:
    """1.0 where the completion, stripped, has the form; 0.0 elsewhere.

    Default: <think>…</think><answer>…</answer>, each tag once, nothing but space around and between.
    `pattern`: a regular expression that must match all of it ("." matches line breaks too).
    Raises re.error for a pattern that is none.
    """
    compiled = None if pattern is None else re.compile(pattern, re.DOTALL)

    def format_reward(completions: Sequence[Any], **_: Any) -> list[float | None]:
        texts = [text_of(completion).strip() for completion in completions]
        if compiled is None:
            return [float(answer_in(text) is not None) for text in texts]
        return [float(compiled.fullmatch(text) is not None) for text in texts]

    return format_reward
