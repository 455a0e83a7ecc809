"""A swarm in words, from its recipe as a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hanse.runs.report.formats import plural
from hanse.runs.report.reading import part

ATTACKS = {
    "text": "TEXT",
    "text-every-sentence": "TEXT in every sentence",
    "math": "MATH",
    "code": "CODE",
    "dos": "DoS",
}
_OWN = {"default": "the default chain of defences", "none": "no defence"}


def attack_name(kind: Any) -> str:
    """As the paper spells it."""
    return ATTACKS.get(str(kind), str(kind))


def liars(document: Mapping[str, Any]) -> list[str]:
    """Names of the nodes that lie."""
    nodes = part(document, "adversary").get("nodes")
    return [f"node-{node}" for node in sorted(set(nodes))] if isinstance(nodes, list) else []


def attack_of(document: Mapping[str, Any]) -> str:
    return attack_name(part(document, "adversary", "completions").get("type", "text"))


def who_exchanged(document: Mapping[str, Any]) -> str:
    """'4 nodes exchanged completions, 1 of them lies by TEXT'."""
    nodes = part(document, "swarm").get("nodes")
    who = plural(nodes, "node") if isinstance(nodes, int) else "Nodes"
    many = len(liars(document))
    if not many:
        return f"{who} exchanged completions, all of them honest"
    lie = "lies" if many == 1 else "lie"
    return f"{who} exchanged completions, {many} of them {lie} by {attack_of(document)}"


def defences_in_words(document: Mapping[str, Any]) -> str:
    """The chain as the recipe names it."""
    given = part(document, "swarm").get("defences", "default")
    if isinstance(given, list):
        names = [str(one.get("type")) for one in given if isinstance(one, Mapping)]
        return ", ".join(names) or "no defence"
    return _OWN.get(str(given), str(given))
