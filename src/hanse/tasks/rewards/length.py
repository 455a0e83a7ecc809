"""Soft overlong punishment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hanse.tasks.rewards.batch import RewardFunction


def build(*, max_tokens: int, buffer: int) -> RewardFunction:
    """DAPO's equation 13 (2503.14476), on the number of tokens |y|, the end token included.

    0 up to L = max_tokens - buffer; (L - |y|) / buffer up to max_tokens; -1 beyond.
    Raises ValueError unless 0 <= buffer <= max_tokens.
    """
    if not 0 <= buffer <= max_tokens:
        raise ValueError(f"buffer must be between 0 and max_tokens = {max_tokens}, not {buffer}")
    free = max_tokens - buffer

    def length(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float | None]:
        return [punishment(len(ids)) for ids in completion_ids]

    def punishment(n: int) -> float:
        if n <= free:
            return 0.0
        return (free - n) / buffer if n <= max_tokens else -1.0

    return length
