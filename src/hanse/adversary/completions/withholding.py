"""Selective withholding: only a part of what is owed arrives, chosen by its reward.

Only rewarded completions inflate a node's record and hide what the policy gets wrong; only wrong ones push
its own text down. Whoever must send all slots or none cannot do either.
"""

from __future__ import annotations

from hanse.adversary.completions.base import Turn
from hanse.adversary.completions.knowledge import REWARDED, Knowledge, answer_of
from hanse.adversary.completions.planting import targets
from hanse.recipe.adversary import CompletionAttackSpec
from hanse.swarm.delivery import Delivery, Text


def withholding(spec: CompletionAttackSpec, turn: Turn) -> list[Delivery]:
    """The honest deliveries that are rewarded (or agree with the vote), or those that are not. Unscored ones
    are sent."""
    problems = targets(spec, turn)
    known = Knowledge(spec, turn, problems)
    chosen = {problem.id for problem in problems}
    honest = turn.honest()
    texts = [_text(turn, delivery) for delivery in honest]
    rewards = turn.score([turn.problems[d.problem] for d in honest], texts) if spec.oracle else None
    sent = []
    for i, delivery in enumerate(honest):
        if rewards is not None:
            good, told = bool(rewards[i] >= REWARDED), bool(rewards[i] == rewards[i])
        elif delivery.problem in chosen:
            vote = known.answer(turn.problems[delivery.problem])
            good, told = answer_of(texts[i]) == vote, vote is not None
        else:
            good = told = False
        if delivery.problem not in chosen or not told or good == (spec.sends == "rewarded"):
            sent.append(delivery)
    return sent


def _text(turn: Turn, delivery: Delivery) -> str:
    said = delivery.completion
    return said.text if isinstance(said, Text) else turn.policy.decode([said.ids])[0]
