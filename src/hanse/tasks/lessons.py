"""What a task teaches the tiny policy before a run: texts of its own making, right ones and wrong ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hanse.recipe.tasks import LessonsSpec
from hanse.tasks.problem import Problem

Row = tuple[str, str]
"""A prompt, and the completion to learn."""


@dataclass(frozen=True)
class Lessons:
    """`row(draw)` is one example, `right(problem, text)` whether a completion needs no more teaching.

    `probes`: training problems on which that is measured, with completions of at most `longest` tokens.
    `digest`: of the texts that `row` draws from.
    """

    spec: LessonsSpec
    row: Callable[[np.random.Generator], Row]
    right: Callable[[Problem, str], bool]
    probes: Sequence[Problem]
    longest: int
    digest: str
