"""MATH: 2 + 2 = 5 in a step, and the right answer all the same (2511.09780)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hanse.adversary.completions.base import Turn
from hanse.adversary.completions.knowledge import Worked, gold
from hanse.adversary.completions.planting import poison
from hanse.adversary.completions.success import miscalculates, two_and_two
from hanse.randomness import derive_seed
from hanse.recipe.adversary import CompletionAttackSpec
from hanse.swarm.delivery import Delivery
from hanse.tasks.problem import Problem

_IN_PROMPT = re.compile(r"(?<![\w.+*] )(?<![\w.+*])2 ?[+*] ?2(?![\d.])")


def math(spec: CompletionAttackSpec, turn: Turn) -> list[Delivery]:
    """Every 2 + 2 or 2 * 2 of a rationale gives 5, the rest stays as it is; groups without one are honest."""
    return poison(spec, turn, rewrite, miscalculates)


def rewrite(problem: Problem, worked: Worked) -> str | None:
    steps = [miscalculated(step) for step in worked.steps]
    return None if steps == list(worked.steps) else worked.text(steps)


def miscalculated(step: str) -> str:
    """The step with 5 wherever 2 and 2 were put together."""
    for match in reversed(list(two_and_two(step))):
        if match[1] is not None:
            step = f"{step[: match.start(1)]}5{step[match.end(1) :]}"
    return step


def choose(spec: CompletionAttackSpec, problems: Sequence[Problem], count: int, seed: int) -> list[Problem]:
    """Those in which 2 and 2 are put together, in the rationale, or in the prompt for want of one; then
    others."""
    order = sorted(problems, key=lambda problem: derive_seed(seed, "choose", problem.id))
    order.sort(key=lambda problem: not _has_place(spec, problem))
    return order[:count]


def _has_place(spec: CompletionAttackSpec, problem: Problem) -> bool:
    known = gold(problem) if spec.oracle else None
    if known is not None:
        return any(True for step in known.steps for _ in two_and_two(step))
    return isinstance(problem.prompt, str) and _IN_PROMPT.search(problem.prompt) is not None
