"""What a server made of its clients in a run: refusals, trust, and how well that tells liars from others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hanse.federation.audit import area, found_at, trust
from hanse.federation.lateness import DISCARDED, WEIGHED
from hanse.federation.records import ServerState
from hanse.recipe.model import Recipe

ALARMS = 0.05
"""The share of honest clients that may fall below the threshold at which liars are counted as found."""
_NO_REFUSAL = ("quarantine", "asked for whole values", WEIGHED, DISCARDED)

Row = dict[str, Any]


def suspects(recipe: Recipe, state: ServerState, names: Sequence[str]) -> Row:
    """`defence` of summary.json: empty where nobody lies by the recipe and nobody is audited.

    `refused`: uploads by client; `honest_refused`: honest clients that were refused at least once, where the
    recipe knows. `trust`, `lowest_trust`: by client, at the end and over the run; `auc`: the chance that a
    liar's lowest trust is below an honest client's; `found`: the share of liars below the threshold that at
    most 5 % of honest clients are below.
    """
    audit, liars = recipe.federation_in_force.audit, recipe.adversary.clients
    if recipe.mode != "federated" or not (audit.on or liars):
        return {}
    refused = refusals_of(state.ledger)
    lying = {names[k] for k in liars}
    told: Row = {"refused": {names[k]: n for k, n in sorted(refused.items())}}
    told["honest_refused"] = sum(names[k] not in lying for k in refused)
    if audit.on:
        told["trust"] = {names[k]: trust(audit, found) for k, found in sorted(state.evidence.items())}
        lowest = {names[k]: found.lowest for k, found in sorted(state.evidence.items())}
        told["lowest_trust"] = lowest
        told |= _told_apart(lowest, lying)
    return {"defence": told}


def refusals_of(ledger: Mapping[str, int]) -> Counter[int]:
    """Refused uploads by client, from the ledger's lines "client 3: reason"."""
    found = Counter[int]()
    for line, count in ledger.items():
        who, _, reason = line.partition(": ")
        kind, _, number = who.partition(" ")
        if kind == "client" and number.isdigit() and not any(word in reason for word in _NO_REFUSAL):
            found[int(number)] += count
    return found


def _told_apart(lowest: Mapping[str, float], lying: set[str]) -> Row:
    liars = [level for name, level in lowest.items() if name in lying]
    honest = [level for name, level in lowest.items() if name not in lying]
    if not liars or not honest:
        return {}
    return {"auc": area(liars, honest), "found": found_at(liars, honest, ALARMS)}
