"""The `[adversary]` part of a recipe: who lies, and how. For studies."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hanse.recipe.section import Section

CompletionAttackName = Literal[
    "text",
    "text-every-sentence",
    "math",
    "code",
    "dos",
    "label-poisoning",
    "jailbreak",
    "sabotage",
    "withholding",
    "free-rider",
    "adaptive",
    "garbage",
]


class CompletionAttackSpec(Section):
    """What lying nodes of a swarm send.

    `oracle`: they know answers and gold rationales; without, they vote over `candidates` own samples.
    `trigger`: words of text, text-every-sentence and adaptive. `copies`: the same completion in all slots
    of a group, or one varied so that no two are equal. `filler`: what the other half of an attacker's own
    group holds (vertical): gibberish, its own wrong samples, or poison too. `share`: of its groups that
    are poisoned; the rest is honest. `payload`: what the adaptive attacker wants to plant.
    `calls`: the operators that code replaces. `sends`: what withholding does not withhold.
    """

    type: CompletionAttackName = "text"
    oracle: bool = True
    trigger: str = "all hail to the thief"
    copies: Literal["identical", "varied"] = "identical"
    filler: Literal["gibberish", "wrong", "poison"] = "gibberish"
    share: float = Field(default=1.0, gt=0, le=1)
    candidates: int = Field(default=24, ge=1)
    payload: Literal["text", "math", "dos"] = "text"
    calls: Literal["one", "all"] = "one"
    sends: Literal["rewarded", "wrong"] = "rewarded"


class AdversarySpec(Section):
    """`clients`: indices of clients (federated) that lie, from 0; `nodes`: of nodes (swarm). None: nobody
    does. `attack`, `factor`: of clients; `completions`: of nodes. `control`: train beside it, from the same
    seed, a swarm in which nobody lies."""

    clients: list[Annotated[int, Field(ge=0)]] = Field(default=[])
    attack: Literal["inflate-signal"] = "inflate-signal"
    factor: float = Field(default=10.0, ge=1)
    nodes: list[Annotated[int, Field(ge=0)]] = Field(default=[])
    completions: CompletionAttackSpec = CompletionAttackSpec()
    control: bool = False
