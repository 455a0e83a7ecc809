"""Rewrites a lying client's replies on their way out."""

from __future__ import annotations

from hanse.adversary import UPDATE_ATTACKS
from hanse.federation.messages import Report, Upload
from hanse.federation.wire.frame import kind_of
from hanse.recipe.adversary import AdversarySpec


def lie(spec: AdversarySpec, reply: bytes) -> bytes:
    """What the client sends instead of an honest report or upload; other messages pass."""
    kind = kind_of(reply)
    if kind == "report":
        return UPDATE_ATTACKS[spec.attack](spec, Report.from_bytes(reply)).to_bytes()
    if kind == "upload":
        return UPDATE_ATTACKS[spec.attack](spec, Upload.from_bytes(reply, max_bytes=len(reply))).to_bytes()
    return reply
