"""DoS: the longest of many rewarded samples, a genuine one, so that everybody's completions grow
(2511.09780)."""

from __future__ import annotations

from hanse.adversary.completions.base import Turn
from hanse.adversary.completions.knowledge import Knowledge
from hanse.adversary.completions.planting import filling, plant, targets
from hanse.recipe.adversary import CompletionAttackSpec
from hanse.swarm.delivery import Delivery


def dos(spec: CompletionAttackSpec, turn: Turn) -> list[Delivery]:
    """Of `candidates` own samples the longest that is rewarded (or agrees with the vote), of equally long
    ones the better. Varied copies are the next longest. A group without any stays honest."""
    problems = targets(spec, turn)
    known = Knowledge(spec, turn, problems)
    longest = {p.id: sorted(known.right(p), key=lambda body: -len(body.ids)) for p in problems}
    return plant(spec, turn, longest, filling(spec, turn, known))
