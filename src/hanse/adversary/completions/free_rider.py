"""Free-riders: they send what cost them nothing, under headers that are in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hanse.adversary.completions.base import Turn
from hanse.adversary.completions.planting import targets
from hanse.randomness import generator
from hanse.recipe.adversary import CompletionAttackSpec
from hanse.swarm.delivery import Delivery


def free_rider(spec: CompletionAttackSpec, turn: Turn) -> list[Delivery]:
    """Completions of last round: others' of the same problem, else others' of any, else its own.

    Claims are copied too. Who has heard nothing yet writes one completion a group and repeats it.
    """
    honest = turn.honest()
    chosen = {problem.id for problem in targets(spec, turn)}
    made, first = [], dict[str, Delivery]()
    for delivery in honest:
        source: Delivery | None = None
        if delivery.problem in chosen:
            source = _copied(turn, delivery) if turn.heard else first.setdefault(delivery.problem, delivery)
        if source is None:
            made.append(delivery)
        else:
            made.append(replace(delivery, completion=source.completion, finish=source.finish))
    return made


def _copied(turn: Turn, due: Delivery) -> Delivery:
    """Which one of last round's: a draw, so that neighbours do not all get the same."""
    others = [d for d in turn.heard if d.node not in (turn.node, *turn.members)]
    same = [d for d in others if d.problem == due.problem]
    pool: Sequence[Delivery] = same or others or turn.heard
    return pool[int(generator(turn.seed, "copy", turn.node, due.problem, due.slot).integers(len(pool)))]
