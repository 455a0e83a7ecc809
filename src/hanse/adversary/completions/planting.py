"""Where poison goes: which groups, which of their slots, and what fills the rest.

A node that owns some slots of a group (horizontal) puts poison into all of them. One that owns all (vertical)
poisons half: with x of a group at reward 1 and the rest at 0 the pull is sqrt(x (1 - x)), largest at 1/2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hanse.adversary.completions.base import Success, Turn
from hanse.adversary.completions.bodies import Body, carry, claimed, gibberish, written
from hanse.adversary.completions.knowledge import Knowledge, Worked
from hanse.adversary.completions.variants import variants
from hanse.randomness import derive_seed
from hanse.recipe.adversary import CompletionAttackSpec
from hanse.swarm.delivery import Delivery, Tokens
from hanse.tasks.problem import Problem

Rewrite = Callable[[Problem, Worked], str | None]
"""A right solution -> the poisoned completion; None: there is no place for it, and the group stays honest."""
Fill = Callable[[Problem, int], Sequence[Body]]
"""(problem, slots) -> what the slots of an own group hold that have no poison."""


def targets(spec: CompletionAttackSpec, turn: Turn) -> list[Problem]:
    """The problems whose groups are poisoned: `share` of them, the same for all who collude."""
    order = sorted(turn.slots, key=lambda name: derive_seed(turn.seed, "share", name))
    chosen = set(order[: max(1, round(spec.share * len(order)))])
    return [turn.problems[name] for name in turn.slots if name in chosen]


def poison(
    spec: CompletionAttackSpec, turn: Turn, rewrite: Rewrite, shows: Success | None = None
) -> list[Delivery]:
    """Deliveries in which right solutions are rewritten; gibberish where the node knows none."""
    problems = targets(spec, turn)
    known = Knowledge(spec, turn, problems)
    planted = {}
    for problem in problems:
        most = needed(spec, turn, problem)
        worked = known.worked(problem, shows)
        if worked is None:
            planted[problem.id] = gibberishes(turn, problem, most)
        elif shows is not None and worked.source and shows(problem, worked.source):
            planted[problem.id] = rewritten(turn, problem, worked, _as_it_is, most)
        else:
            planted[problem.id] = rewritten(turn, problem, worked, rewrite, most)
    return plant(spec, turn, planted, filling(spec, turn, known))


def rewritten(turn: Turn, problem: Problem, worked: Worked, rewrite: Rewrite, most: int) -> list[Body]:
    """Up to `most` different poisoned completions that fit; the foremost is not varied, and may not fit."""
    first = rewrite(problem, worked)
    if first is None:
        return []
    made = [written(turn, first)]
    for steps in variants(worked.steps, 4 * most, last_once=worked.program):
        varied = Worked(steps, worked.joint, worked.answer, worked.program, worked.source)
        text = rewrite(problem, varied)
        body = None if text is None else written(turn, text)
        if body is not None and body.finish == "stop" and body not in made:
            made.append(body)
        if len(made) >= most:
            break
    return made


def _as_it_is(problem: Problem, worked: Worked) -> str:
    return worked.text()


def gibberishes(turn: Turn, problem: Problem, count: int) -> list[Body]:
    """Different ones, the shortest first."""
    return [gibberish(turn, problem, 2 + i) for i in range(count)]


def filling(spec: CompletionAttackSpec, turn: Turn, known: Knowledge) -> Fill:
    """The other half of an own group, as `filler` says; gibberish where there are no wrong samples."""

    def fill(problem: Problem, slots: int) -> Sequence[Body]:
        wrong = known.wrong(problem) if spec.filler == "wrong" else []
        if spec.copies == "varied":
            return (wrong + gibberishes(turn, problem, slots))[:slots]
        wrong = wrong or [gibberish(turn, problem)]
        return [wrong[i % len(wrong)] for i in range(slots)]

    return fill


def owns_group(turn: Turn, problem: Problem) -> bool:
    return 1 < len(turn.slots[problem.id]) == turn.group_size


def needed(spec: CompletionAttackSpec, turn: Turn, problem: Problem) -> int:
    """How many different completions of a problem the colluding nodes need up to and with this one."""
    each = len(turn.slots[problem.id]) if spec.copies == "varied" else 1
    return _offset(spec, turn, problem) + each


def _offset(spec: CompletionAttackSpec, turn: Turn, problem: Problem) -> int:
    """Where this node's share of the different completions begins, so that no two nodes send the same."""
    if owns_group(turn, problem):
        return 0
    rank = sorted(turn.members).index(turn.node) if turn.node in turn.members else 0
    return rank * (len(turn.slots[problem.id]) if spec.copies == "varied" else 1)


def plant(
    spec: CompletionAttackSpec, turn: Turn, planted: Mapping[str, Sequence[Body]], fill: Fill
) -> list[Delivery]:
    """The honest deliveries with these completions in their place, by problem; what has none stays.

    Varied copies that are too few leave the other slots honest.
    """
    honest = turn.honest()
    places: dict[str, list[int]] = {}
    for i, delivery in enumerate(honest):
        places.setdefault(delivery.problem, []).append(i)
    for name, bodies in planted.items():
        if not bodies:
            continue
        problem, mine = turn.problems[name], places[name]
        chosen = _shared_out(spec, turn, problem, bodies, fill)
        lies = [carry(honest[i], body) for i, body in zip(mine, chosen, strict=False)]
        if all(isinstance(d.completion, Tokens) and d.completion.logp is not None for d in _at(honest, mine)):
            lies = claimed(turn, problem, lies)
        for i, lie in zip(mine, lies, strict=False):
            honest[i] = lie
    return honest


def _at(deliveries: Sequence[Delivery], places: Sequence[int]) -> list[Delivery]:
    return [deliveries[i] for i in places]


def _shared_out(
    spec: CompletionAttackSpec, turn: Turn, problem: Problem, bodies: Sequence[Body], fill: Fill
) -> list[Body]:
    """What this node's slots of a group hold, in order."""
    slots = len(turn.slots[problem.id])
    poisoned = slots // 2 if owns_group(turn, problem) and spec.filler != "poison" else slots
    start = _offset(spec, turn, problem) % len(bodies)
    if spec.copies == "varied":
        mine = [*bodies[start:], *bodies[:start]][:poisoned]
    else:
        mine = [bodies[start]] * poisoned
    return [*mine, *fill(problem, slots - poisoned)] if poisoned < slots else mine
