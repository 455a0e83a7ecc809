"""1 for a completion in the wanted form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hanse.tasks.rewards.batch import RewardFunction, text_of

_TAGS = ("<think>", "</think>", "<answer>", "</answer>")


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
            return [float(_thinks_then_answers(text)) for text in texts]
        return [float(compiled.fullmatch(text) is not None) for text in texts]

    return format_reward


def _thinks_then_answers(text: str) -> bool:
    """In time linear in the text, where the equivalent regular expression is quadratic."""
    if not (text.startswith(_TAGS[0]) and text.endswith(_TAGS[3])):
        return False
    if any(text.count(tag) != 1 for tag in _TAGS):
        return False
    _, closed, rest = text.partition(_TAGS[1])
    between, opened, _ = rest.partition(_TAGS[2])
    return bool(closed and opened) and not between.strip()
