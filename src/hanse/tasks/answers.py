"""The final answer inside a worked solution."""

from __future__ import annotations

from typing import Literal

AnswerFormat = Literal["plain", "gsm8k", "boxed"]


def extract_answer(text: str, answer_format: AnswerFormat) -> str | None:
    """The answer in `text`, or None where the format's mark is missing.

    plain: all of it, stripped. gsm8k: what follows the last "####", without thousands separators.
    boxed: the contents of the last \\boxed{…}, braces balanced, as in the MATH data set.
    """
    if answer_format == "gsm8k":
        _, mark, answer = text.rpartition("####")
        return answer.strip().replace(",", "") if mark and answer.strip() else None
    if answer_format == "boxed":
        return last_boxed(text)
    return text.strip()


def last_boxed(text: str) -> str | None:
    r"""The contents of the last \boxed{…} or \fbox{…}; None without one or with unbalanced braces."""
    starts = [text.rfind(mark) + len(mark) for mark in ("\\boxed{", "\\fbox{") if mark in text]
    if not starts:
        return None
    depth = 1
    start = position = max(starts)
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 2
            continue
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return text[start:position].strip()
        position += 1
    return None


def stated_answer(text: str) -> str:
    """The answer that a completion of unknown format states: boxed, behind "####", in <answer> tags, or all
    of it, stripped; "" for none."""
    boxed, marked = last_boxed(text), extract_answer(text, "gsm8k")
    _, tag, tagged = text.rpartition("<answer>")
    found = boxed or marked or (tagged.partition("</answer>")[0] if tag else text)
    return found.strip()
