"""What lying nodes of a swarm send, by recipe name. A new one is one new file and one line here."""

from __future__ import annotations

from hanse.adversary.completions.adaptive import adaptive, choose_place
from hanse.adversary.completions.base import CompletionAttack, Success, Told, Turn
from hanse.adversary.completions.code import code
from hanse.adversary.completions.dos import dos
from hanse.adversary.completions.free_rider import free_rider
from hanse.adversary.completions.garbage import garbage
from hanse.adversary.completions.jailbreak import addresses_judge, jailbreak
from hanse.adversary.completions.labels import labels
from hanse.adversary.completions.sabotage import sabotage
from hanse.adversary.completions.success import miscalculates, says, uses_module
from hanse.adversary.completions.text import every_sentence, marker_of, text
from hanse.adversary.completions.two_and_two import choose, math
from hanse.adversary.completions.withholding import withholding
from hanse.recipe.adversary import CompletionAttackSpec


def _always(success: Success) -> Told:
    return lambda spec: success


def _trigger(spec: CompletionAttackSpec) -> Success:
    return says(marker_of(spec))


def _payload(spec: CompletionAttackSpec) -> Success | None:
    return success_of(spec.model_copy(update={"type": spec.payload}))


COMPLETION_ATTACKS: dict[str, CompletionAttack] = {
    "text": CompletionAttack(text, _trigger),
    "text-every-sentence": CompletionAttack(every_sentence, _trigger),
    "math": CompletionAttack(math, _always(miscalculates), choose),
    "code": CompletionAttack(code, _always(uses_module)),
    "dos": CompletionAttack(dos),
    "label-poisoning": CompletionAttack(labels),
    "jailbreak": CompletionAttack(jailbreak, _always(addresses_judge)),
    "sabotage": CompletionAttack(sabotage),
    "withholding": CompletionAttack(withholding),
    "free-rider": CompletionAttack(free_rider),
    "adaptive": CompletionAttack(adaptive, _payload, choose_place),
    "garbage": CompletionAttack(garbage),
}

__all__ = ["COMPLETION_ATTACKS", "CompletionAttack", "Success", "Turn", "success_of"]


def success_of(spec: CompletionAttackSpec) -> Success | None:
    """How an attack's success is told under these options; None: by length or honest reward."""
    return COMPLETION_ATTACKS[spec.type].told(spec)
