"""Good text pushed down without any rejection: a right rationale under a wrong answer earns a negative
advantage from honest scoring."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.adversary.completions.base import Turn
from hanse.adversary.completions.bodies import NONSENSE, Body, can_write, written
from hanse.adversary.completions.knowledge import Knowledge, Worked
from hanse.adversary.completions.planting import gibberishes, needed, plant, rewritten, targets
from hanse.randomness import generator
from hanse.recipe.adversary import CompletionAttackSpec
from hanse.swarm.delivery import Delivery
from hanse.tasks.problem import Problem


def sabotage(spec: CompletionAttackSpec, turn: Turn) -> list[Delivery]:
    """Right steps, wrong answer, in all slots of shared groups. Of its own groups the other half has the
    right answer after no reasoning, so that thoughtlessness is what is rewarded."""
    problems = targets(spec, turn)
    known = Knowledge(spec, turn, problems)
    planted: dict[str, list[Body]] = {}
    for problem in problems:
        worked, most = known.worked(problem), needed(spec, turn, problem)

        def rewrite(problem: Problem, worked: Worked) -> str:
            return worked.text(answer=wrong_answer(turn, problem, worked.answer))

        if worked is not None and not worked.program:
            planted[problem.id] = rewritten(turn, problem, worked, rewrite, most)

    def fill(problem: Problem, slots: int) -> Sequence[Body]:
        return _thoughtless(spec, turn, problem, known.answer(problem), slots)

    return plant(spec, turn, planted, fill)


def wrong_answer(turn: Turn, problem: Problem, answer: str) -> str:
    """Off by one, upwards or downwards, where that is a number that the tokenizer has; else another
    problem's answer."""
    try:
        value = int(answer)
    except ValueError:
        others = sorted({p.answer for p in turn.problems.values() if p.answer not in (None, answer)} - {None})
        return str(others[0]) if others else "0"
    up = bool(generator(turn.seed, "wrong", problem.id).integers(2))
    order = [value + 1, value - 1] if up else [value - 1, value + 1]
    near = [str(n) for n in order if n >= 0 or value < 0]
    return next((text for text in near if can_write(turn.policy, text)), near[0])


def _thoughtless(
    spec: CompletionAttackSpec, turn: Turn, problem: Problem, answer: str | None, slots: int
) -> list[Body]:
    if answer is None:
        return gibberishes(turn, problem, slots)
    word = NONSENSE if can_write(turn.policy, NONSENSE) else answer
    counts = range(1, 1 + slots) if spec.copies == "varied" else [1] * slots
    return [written(turn, Worked((" ".join([word] * n),), " ", answer).text()) for n in counts]
