"""What a lying node knows: gold solutions, or what most of its own samples say (2511.09780, section 4.5)."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hanse.adversary.completions.base import Success, Turn
from hanse.adversary.completions.bodies import Body, sampled
from hanse.adversary.completions.success import program_in
from hanse.randomness import derive_seed
from hanse.recipe.adversary import CompletionAttackSpec
from hanse.tasks.answers import last_boxed
from hanse.tasks.problem import Problem
from hanse.tasks.rewards.batch import tagged

REWARDED = 0.8
"""From this reward on a sample is worth sending, as in the authors' code."""

_ANNOTATION = re.compile(r"<<[^<>]*>>")
_JOINTS = ((" ; ", re.compile(r"\s+;\s+")), ("\n", re.compile(r"\n+")), (" ", re.compile(r"(?<=[.!?])\s+")))


@dataclass(frozen=True)
class Worked:
    """A right solution in steps. `source`: the completion it comes from, "" for a gold one."""

    steps: tuple[str, ...]
    joint: str
    answer: str
    program: bool = False
    source: str = ""

    def text(self, steps: Sequence[str] | None = None, answer: str | None = None, opening: str = "") -> str:
        """As a completion, with other steps or another answer; `opening` stands before the first step."""
        worked = self.joint.join(self.steps if steps is None else steps)
        if self.program:
            return f"<code> # {opening}\n{worked} </code>" if opening else f"<code> {worked} </code>"
        inner = " ".join(part for part in (opening, worked) if part)
        return f"<think> {inner} </think> <answer> {self.answer if answer is None else answer} </answer>"


def parse(text: str, answer: str, source: str = "") -> Worked:
    """The steps of a completion, or of a data set's rationale: GSM8K's annotations and answer line go."""
    program = "<code>" in text or "```" in text
    if program:
        body = program_in(text)
    else:
        thought = tagged(text, "think") if "<think>" in text else text.partition("####")[0]
        body = _ANNOTATION.sub("", thought or "").strip()
    for joint, pattern in _JOINTS:
        parts = tuple(part.rstrip() for part in pattern.split(body) if part.strip())
        if len(parts) > 1:
            return Worked(parts, joint, answer, program, source)
    return Worked((body,) if body else (), " ", answer, program, source)


def gold(problem: Problem) -> Worked | None:
    """From the problem's metadata: `rationale`, or a data set's own worked solution."""
    if problem.answer is None:
        return None
    for column in ("rationale", "solution", "answer"):
        text = problem.metadata.get(column)
        if isinstance(text, str) and text.strip():
            return parse(text, problem.answer)
    return None


def answer_of(text: str) -> str | None:
    """What a completion answers, for votes; of a program, what it does."""
    if "<code>" in text or "```" in text:
        try:
            return ast.dump(ast.parse(program_in(text)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    found = tagged(text, "answer") or last_boxed(text)
    if found or "<think>" in text or "<answer>" in text:
        return found
    return text.split()[-1] if text.split() else None


class Knowledge:
    """Of one node in one round, about `problems`. Samples are drawn once, when first needed."""

    def __init__(self, spec: CompletionAttackSpec, turn: Turn, problems: Sequence[Problem]) -> None:
        self.spec, self.turn, self.problems = spec, turn, list(problems)

    def worked(self, problem: Problem, shows: Success | None = None) -> Worked | None:
        """A right solution, as far as the node can tell; one that already `shows` the poison, if it can."""
        known = gold(problem) if self.spec.oracle else None
        if known is not None and (known.steps or not self.right(problem)):
            return known
        right = [body.text for body in self.right(problem)]
        showing = [text for text in right if shows is not None and shows(problem, text)]
        for text in showing + right:
            return parse(text, self.answer(problem) or "", text)
        if self.spec.oracle and problem.answer is not None:
            return Worked((), " ", problem.answer)
        return None

    def answer(self, problem: Problem) -> str | None:
        """The known one, or the vote's."""
        return problem.answer if self.spec.oracle else self._vote(problem)

    def right(self, problem: Problem) -> list[Body]:
        """Its own different samples that are rewarded, the highest first, or that agree with the vote."""
        return [body for body, good in self._judged[problem.id] if good]

    def wrong(self, problem: Problem) -> list[Body]:
        """Its own different samples that are not."""
        return [body for body, good in self._judged[problem.id] if not good]

    @cached_property
    def _judged(self) -> dict[str, list[tuple[Body, bool]]]:
        judged: dict[str, list[tuple[Body, bool]]] = {}
        for problem in self.problems:
            found = self._samples[problem.id]
            if self.spec.oracle:
                found = sorted(found, key=lambda pair: -pair[1])
                told = [(body, reward >= REWARDED) for body, reward in found]
            else:
                vote = self._vote(problem)
                told = [(body, vote is not None and answer_of(body.text) == vote) for body, _ in found]
            judged[problem.id] = list({body.ids: (body, good) for body, good in reversed(told)}.values())[
                ::-1
            ]
        return judged

    def _vote(self, problem: Problem) -> str | None:
        """The most frequent answer; of equally frequent ones the first in order of letters."""
        votes = Counter(answer_of(body.text) for body, _ in self._samples[problem.id])
        votes.pop(None, None)
        return min(votes, key=lambda answer: (-votes[answer], answer or ""), default=None)

    @cached_property
    def _samples(self) -> dict[str, list[tuple[Body, float]]]:
        """Own samples with their rewards, -1 where unscored."""
        turn = self.turn
        seeds = [derive_seed(turn.seed, "own", turn.node, problem.id) for problem in self.problems]
        groups = turn.sample(self.problems, self.spec.candidates, seeds) if self.problems else []
        return {
            group.problem.id: [
                (body, -1.0 if rollout.reward is None else rollout.reward)
                for body, rollout in zip(sampled(turn.policy, group), group, strict=True)
            ]
            for group in groups
        }
