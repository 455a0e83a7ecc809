"""Mathematical equality, by math-verify."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from hanse.tasks.optional import require
from hanse.tasks.rewards.batch import RewardFunction, text_of


def build() -> RewardFunction:
    """1.0 where the completion's answer equals the problem's as mathematics (1/2 = 0.5); 0.0 elsewhere.

    The last \\boxed{…} counts first, then LaTeX, then a plain number. None where there is no answer or
    math-verify cannot read it. Its own timeouts are off: they need the main thread and turn a hang into a
    wrong answer; the scorer's deadline turns it into an unscored one. Raises RecipeError without `data`.
    """
    verifier = require("math_verify", "data", "rewards")
    for name in ("math_verify.parser", "math_verify.grader"):
        logging.getLogger(name).setLevel(logging.ERROR)
    targets = [verifier.LatexExtractionConfig(boxed_match_priority=0), verifier.ExprExtractionConfig()]

    @lru_cache(maxsize=4096)
    def gold_of(answer: str) -> list[Any]:
        marked = answer if "$" in answer or "\\boxed" in answer else f"\\boxed{{{answer}}}"
        return list(verifier.parse(marked, parsing_timeout=None))

    def one(completion: Any, answer: str | None) -> float | None:
        gold = [] if answer is None else gold_of(answer)
        if not gold:
            return None
        found = verifier.parse(
            text_of(completion), targets, extraction_mode="first_match", parsing_timeout=None
        )
        return float(verifier.verify(gold, found, timeout_seconds=None, raise_on_error=True))

    def math(completions: Sequence[Any], answer: Sequence[str | None], **_: Any) -> list[float | None]:
        return [one(completion, wanted) for completion, wanted in zip(completions, answer, strict=True)]

    return math
