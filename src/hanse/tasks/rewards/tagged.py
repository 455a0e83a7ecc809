"""1 for the right answer in the strict form of "Hail to the Thief" (2511.09780): reasoning, then answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hanse.tasks.rewards.batch import RewardFunction, text_of


def build(*, think_tag: str = "think", answer_tag: str = "answer") -> RewardFunction:
    """1.0 where the completion is <think>…</think><answer>…</answer>, each tag once, nothing but space
    around and between, and the answer, stripped, equals the problem's; 0.0 elsewhere; None without one.

    Raises ValueError for tags that are empty, equal, or hold angle brackets.
    """
    tags = (think_tag, answer_tag)
    if not all(isinstance(tag, str) and tag and not set("<>") & set(tag) for tag in tags) or (
        think_tag == answer_tag
    ):
        raise ValueError(
            f"think_tag = {think_tag!r} and answer_tag = {answer_tag!r} are not two names of tags"
        )

    def tagged(completions: Sequence[Any], answer: Sequence[str | None], **_: Any) -> list[float | None]:
        return [
            None if wanted is None else float(answer_in(text_of(completion), *tags) == wanted.strip())
            for completion, wanted in zip(completions, answer, strict=True)
        ]

    return tagged


def answer_in(text: str, think_tag: str = "think", answer_tag: str = "answer") -> str | None:
    """The answer, stripped; None if the text has another form. In time linear in the text, where the
    equivalent regular expression is quadratic."""
    opened, closed, begun, ended = (f"<{s}{tag}>" for tag in (think_tag, answer_tag) for s in ("", "/"))
    text = text.strip()
    if not (text.startswith(opened) and text.endswith(ended)):
        return None
    if any(text.count(tag) != 1 for tag in (opened, closed, begun, ended)):
        return None
    _, has_closed, rest = text.partition(closed)
    between, has_begun, answer = rest.partition(begun)
    if not (has_closed and has_begun) or between.strip():
        return None
    return answer.removesuffix(ended).strip()
