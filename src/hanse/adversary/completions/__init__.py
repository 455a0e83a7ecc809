"""What lying nodes of a swarm send, by recipe name. A new one is one new file and one line here."""

from __future__ import annotations

from hanse.adversary.completions.adaptive import adaptive, choose_place
from hanse.adversary.completions.base import CompletionAttack, Success, Turn
from hanse.adversary.completions.code import code
from hanse.adversary.completions.dos import dos
from hanse.adversary.completions.free_rider import free_rider
from hanse.adversary.completions.garbage import garbage
from hanse.adversary.completions.jailbreak import addresses_judge, jailbreak
from hanse.adversary.completions.labels import labels
from hanse.adversary.completions.sabotage import sabotage
from hanse.adversary.completions.success import miscalculates, says, uses_module
from hanse.adversary.completions.text import MARKER, NONSENSE, every_sentence, marker_of, text
from hanse.adversary.completions.two_and_two import choose, math
from hanse.adversary.completions.withholding import withholding
from hanse.recipe.adversary import CompletionAttackSpec

COMPLETION_ATTACKS: dict[str, CompletionAttack] = {
    "text": CompletionAttack(text, says(MARKER)),
    "text-every-sentence": CompletionAttack(every_sentence, says(NONSENSE)),
    "math": CompletionAttack(math, miscalculates, choose),
    "code": CompletionAttack(code, uses_module),
    "dos": CompletionAttack(dos, None),
    "label-poisoning": CompletionAttack(labels, None),
    "jailbreak": CompletionAttack(jailbreak, addresses_judge),
    "sabotage": CompletionAttack(sabotage, None),
    "withholding": CompletionAttack(withholding, None),
    "free-rider": CompletionAttack(free_rider, None),
    "adaptive": CompletionAttack(adaptive, says(MARKER), choose_place),
    "garbage": CompletionAttack(garbage, None),
}

__all__ = ["COMPLETION_ATTACKS", "CompletionAttack", "Success", "Turn", "success_of"]


def success_of(spec: CompletionAttackSpec) -> Success | None:
    """How an attack's success is told under these options: its own trigger, the adaptive one's payload."""
    planted = spec.payload if spec.type == "adaptive" else spec.type
    if planted in ("text", "text-every-sentence"):
        return says(marker_of(spec))
    if spec.type == "adaptive":
        return COMPLETION_ATTACKS[planted].succeeded
    return COMPLETION_ATTACKS[spec.type].succeeded
