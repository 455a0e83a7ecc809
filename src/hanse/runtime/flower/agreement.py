"""What client and server must read the same in their recipes, compared section by section."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from hanse.recipe.model import Recipe

_SHARED = ("mode", "seed", "rewards", "grpo", "federation")
_OWN_BUSINESS = (
    "micro_batch",
    "sample_batch",
    "degenerate_patience",
    "on_degenerate",
    "max_non_finite_steps",
)
_PLACES = ("path", "gradient_checkpointing")


def terms(recipe: Recipe) -> str:
    """Digests of the shared sections, as JSON: paths on a machine and limits of its memory are left out."""
    document = recipe.model_dump(mode="json")
    shared = {name: document[name] for name in _SHARED}
    shared["grpo"] = _without(document["grpo"], _OWN_BUSINESS)
    shared["rewards"] = [_without(reward, ("path", "trusted")) for reward in document["rewards"]]
    shared["policy"] = _without(document["policy"], _PLACES)
    shared["partition.clients"] = recipe.partition.clients
    shared["runtime.threads"] = recipe.runtime.threads
    if recipe.grpo.schedule != "constant":
        shared["rounds"] = recipe.rounds
    return json.dumps({name: _digest(value) for name, value in shared.items()})


def differing(ours: str, theirs: object) -> list[str]:
    """Sections that another party reads differently, by name; all of them where it says nothing readable."""
    known: Mapping[str, str] = json.loads(ours)
    try:
        told = json.loads(theirs) if isinstance(theirs, str) and len(theirs) < 1 << 14 else None
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        return list(known)
    return [name for name, digest in known.items() if told.get(name) != digest]


def _without(section: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in section.items() if name not in names}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
