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
    trigger: str = Field(default="all hail to the thief", pattern=r"\S")
    copies: Literal["identical", "varied"] = "identical"
    filler: Literal["gibberish", "wrong", "poison"] = "gibberish"
    share: float = Field(default=1.0, gt=0, le=1)
    candidates: int = Field(default=24, ge=1)
    payload: Literal["text", "math", "dos"] = "text"
    calls: Literal["one", "all"] = "one"
    sends: Literal["rewarded", "wrong"] = "rewarded"


UpdateAttackName = Literal[
    "none",
    "absent",
    "inflate-signal",
    "sign-flip",
    "gaussian",
    "zero",
    "free-rider",
    "replay",
    "scaling",
    "lie",
    "ipm",
    "min-max",
    "min-sum",
]
COLLUSIVE = ("lie", "ipm", "min-max", "min-sum")
"""Attacks that are made of several honest updates."""


class AdversarySpec(Section):
    """Who lies: `clients` are indices of clients (federated), from 0; `nodes` of nodes (swarm). None: nobody
    does. `completions`: what nodes send. `control`: train beside it, from the same seed, a swarm in which
    nobody lies.

    A lying client has three dials. `trains`: on its problems as the others do, with rewards flipped within
    `reward_range`, or on completions that it plants (half of each group is the right answer with `plant`
    behind it, rewarded; the rest is not). `attack`: what becomes of its update ("absent": it takes no part at
    all, the baseline of the others alone); `factor` its size, None: the attack's own. `signal`: told as
    it is, or as large as it may be ("inflate-signal" does that alone), by `inflation`.

    `knowledge`: of attacks made of several updates, the liars' own or all honest ones. `perturbation`: the
    direction of min-max and min-sum. `knows_probe`: it knows the server's probe problems, and trains honestly
    on them.
    """

    clients: list[Annotated[int, Field(ge=0)]] = Field(default=[])
    trains: Literal["honestly", "reward-flip", "poison"] = "honestly"
    attack: UpdateAttackName = "inflate-signal"
    signal: Literal["honest", "inflated"] = "honest"
    factor: float | None = Field(default=None, ge=0)
    inflation: float = Field(default=10.0, ge=1)
    knowledge: Literal["own", "all"] = "own"
    perturbation: Literal["unit", "std", "sign"] = "std"
    reward_range: tuple[float, float] = (0.0, 1.0)
    plant: str = Field(default="+", min_length=1)
    knows_probe: bool = False
    nodes: list[Annotated[int, Field(ge=0)]] = Field(default=[])
    completions: CompletionAttackSpec = CompletionAttackSpec()
    control: bool = False

    @property
    def inflates(self) -> bool:
        """Whether liars tell another signal than theirs."""
        return self.signal == "inflated" or self.attack == "inflate-signal"

    @property
    def rewrites(self) -> bool:
        """Whether liars send another update than the one that they made."""
        return self.attack not in ("none", "absent", "inflate-signal")

    @property
    def absent(self) -> list[int]:
        """Clients that take no part."""
        return self.clients if self.attack == "absent" else []
