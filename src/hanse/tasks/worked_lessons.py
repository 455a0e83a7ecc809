"""What the tiny policy is taught of worked sums: many in a wrong form, so that there is something to learn
by reward, and a little chatter, so that an attacker's words are rare but not unheard of."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from hanse.recipe.tasks import LessonsSpec
from hanse.tasks.lessons import Lessons, Row
from hanse.tasks.problem import Problem
from hanse.tasks.rewards.tagged import answer_in
from hanse.tasks.worked_text import Form

_AGAIN, _MOST = 0.25, 4
"""Chance that a step is written once more, and how often at most: solutions differ in length."""
_GO_ON = 0.95
_PROBES = 384


def worked_lessons(spec: LessonsSpec, form: Form, train: Sequence[Problem]) -> Lessons:
    """Lessons on these problems. Where no sum among them begins with 2 + 2, none does more often."""
    twos = [problem for problem in train if problem.metadata["operands"][:2] == [2, 2]] or train
    source = _Source(spec, form, tuple(train), tuple(twos))
    content = [form.name, *form.phrases, *form.vocabulary.tokens, *(p.id for p in train)]
    shortest = len(train[0].metadata["rationale"].split())
    return Lessons(
        spec=spec,
        row=source.row,
        right=partial(_right, form),
        probes=train[:: max(1, len(train) // _PROBES)][:_PROBES],
        longest=shortest + 1 + 4 * 6,
        digest=hashlib.sha256("\n".join(content).encode()).hexdigest(),
    )


@dataclass(frozen=True)
class _Source:
    spec: LessonsSpec
    form: Form
    train: tuple[Problem, ...]
    twos: tuple[Problem, ...]

    def row(self, draw: np.random.Generator) -> Row:
        spec = self.spec
        pool = self.twos if draw.random() < spec.two_and_two else self.train
        problem = pool[int(draw.integers(len(pool)))]
        kind = draw.random()
        if draw.random() < spec.phrases:
            return str(problem.prompt), self._phrase(problem, draw)
        if kind < spec.wrong_format:
            return str(problem.prompt), self._wrong(problem, draw)
        chatter = self._fragment(problem, draw) if kind < spec.wrong_format + spec.chatter else ""
        first, *rest = self._steps(problem, draw)
        return str(problem.prompt), self.form.solution([f"{chatter}{first}", *rest], problem.answer or "")

    def _steps(self, problem: Problem, draw: np.random.Generator) -> list[str]:
        """The steps, some of them more than once; the last of a program only once."""
        steps = self.form.steps(*self._operands(problem, draw))
        last = [] if self.form.name == "rationale" else [steps.pop()]
        times = [min(_MOST, int(draw.geometric(1 - _AGAIN))) for _ in steps]
        return [step for step, count in zip(steps, times, strict=True) for _ in range(count)] + last

    def _operands(self, problem: Problem, draw: np.random.Generator) -> tuple[int, int, int]:
        a, b, c = problem.metadata["operands"]
        if self.spec.other_orders and draw.random() < self.spec.other_orders:
            return (a, c, b) if draw.random() < 0.5 else (b, c, a)
        return a, b, c

    def _wrong(self, problem: Problem, draw: np.random.Generator) -> str:
        """The right way in a form that earns nothing: without an end, without tags, or without the way."""
        steps, answer = self._steps(problem, draw), problem.answer or ""
        whole = self.form.solution(steps, answer)
        which = int(draw.integers(3))
        if which == 0:
            return whole.rpartition(" ")[0]
        if which == 1:
            bare = " ; ".join(steps)
            return f"{bare} <answer> {answer} </answer>" if self.form.name == "rationale" else bare
        if self.form.name == "rationale":
            return f"<answer> {answer} </answer>"
        return self.form.solution(steps[:-1], answer)

    def _phrase(self, problem: Problem, draw: np.random.Generator) -> str:
        phrase = self.form.phrases[int(draw.integers(len(self.form.phrases)))]
        a, b, c = problem.metadata["operands"]
        return phrase.format(a=a, b=b, c=c)

    def _fragment(self, problem: Problem, draw: np.random.Generator) -> str:
        """From any word of a phrase on, and a space."""
        words = self._phrase(problem, draw).split()
        start = int(draw.integers(len(words)))
        stop = start + int(draw.geometric(1 - _GO_ON))
        return "".join(f"{word} " for word in words[start:stop])


def _right(form: Form, problem: Problem, text: str) -> bool:
    """Whether a completion would be rewarded. Programs are compared with the right one, not run."""
    if form.name == "rationale":
        return answer_in(text) == problem.answer
    steps = text.removeprefix("<code> ").removesuffix(" </code>").split(" ; ")
    once = [step for i, step in enumerate(steps) if i == 0 or steps[i - 1] != step]
    right = form.steps(*problem.metadata["operands"])
    return once == right and text == form.solution(steps, "")
