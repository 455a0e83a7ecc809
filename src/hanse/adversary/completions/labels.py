"""Label poisoning: wrong answers sent along, with completions that would be right by them.

RL Swarm's peers take questions, answers and tests from one another. Here no answer travels: an honest
receiver has no place for the extra field, and scores against its own.
"""

from __future__ import annotations

from hanse.adversary.completions.base import Turn
from hanse.adversary.completions.knowledge import Knowledge
from hanse.adversary.completions.planting import targets
from hanse.adversary.completions.sabotage import sabotage, wrong_answer
from hanse.federation.wire.frame import decode_frame, encode_frame
from hanse.recipe.adversary import CompletionAttackSpec
from hanse.swarm.delivery import Bundle

FIELD = "answers"


def labels(spec: CompletionAttackSpec, turn: Turn) -> bytes:
    """The bundle of a node whose completions all have a wrong answer, with these answers in its header."""
    problems = targets(spec, turn)
    known = Knowledge(spec, turn, problems)
    answers = {p.id: wrong_answer(turn, p, known.answer(p) or "") for p in problems}
    made = sabotage(spec.model_copy(update={"filler": "poison"}), turn)
    data = Bundle(turn.round, turn.node, tuple(made)).to_bytes()
    frame = decode_frame(data, kind="bundle", max_bytes=len(data), max_header=len(data))
    return encode_frame("bundle", {**frame.fields, FIELD: answers}, frame.buffers)
