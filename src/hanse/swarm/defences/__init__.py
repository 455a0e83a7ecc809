"""Defences, by recipe name. A new one is one new file and a line in each table here."""

from __future__ import annotations

from collections.abc import Mapping

from hanse.recipe.swarm import Reject
from hanse.swarm.defences.assignment import assignment
from hanse.swarm.defences.base import Defence, Finding, View
from hanse.swarm.defences.claims import claims
from hanse.swarm.defences.duplicates import duplicates
from hanse.swarm.defences.judge import judge
from hanse.swarm.defences.length import length
from hanse.swarm.defences.lengths import lengths
from hanse.swarm.defences.policy import policy
from hanse.swarm.defences.replay import replay
from hanse.swarm.defences.reputation import reputation
from hanse.swarm.defences.sampling import min_p, top_k
from hanse.swarm.defences.steps import steps
from hanse.swarm.defences.termination import termination
from hanse.swarm.defences.typicality import typicality

DEFENCES: Mapping[str, Defence] = {
    "assignment": assignment,
    "policy": policy,
    "claims": claims,
    "length": length,
    "duplicates": duplicates,
    "termination": termination,
    "top-k": top_k,
    "min-p": min_p,
    "typicality": typicality,
    "replay": replay,
    "lengths": lengths,
    "steps": steps,
    "judge": judge,
    "reputation": reputation,
}
ON_REJECT: Mapping[str, Reject] = {"assignment": "quarantine", "steps": "mask", "judge": "mask"}
"""Where the recipe says nothing; of all others: drop. An honest node never sends what `assignment` rejects.
Judges also reject honest mistakes: dropping those would leave groups in which all is right, so they count."""

__all__ = ["DEFENCES", "ON_REJECT", "Defence", "Finding", "View"]
