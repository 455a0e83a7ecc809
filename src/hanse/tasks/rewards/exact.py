"""1 for the right answer, letter by letter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hanse.tasks.rewards.batch import RewardFunction, tagged, text_of


def build(*, tag: str | None = None, ignore_case: bool = False) -> RewardFunction:
    """1.0 where the completion, stripped, equals the answer; 0.0 elsewhere; None without an answer.

    With `tag`, only what stands between the last <tag> and </tag> counts.
    """

    def given(completion: Any) -> str:
        text = text_of(completion)
        if tag is not None:
            text = tagged(text, tag) or ""
        return text.strip().casefold() if ignore_case else text.strip()

    def exact(completions: Sequence[Any], answer: Sequence[str | None], **_: Any) -> list[float | None]:
        return [
            None if wanted is None else float(given(completion) == _plain(wanted, ignore_case))
            for completion, wanted in zip(completions, answer, strict=True)
        ]

    return exact


def _plain(answer: str, ignore_case: bool) -> str:
    return answer.strip().casefold() if ignore_case else answer.strip()
