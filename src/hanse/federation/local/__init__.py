"""Local methods, by recipe name. A new one is one new file and one line here."""

from __future__ import annotations

from hanse.federation.local.base import Delivered, LocalMethod, Plain, Setting, Vectors, bounded
from hanse.federation.local.fedadamw import FEDADAMW
from hanse.federation.local.fedprox import FEDPROX
from hanse.federation.local.scaffold import SCAFFOLD
from hanse.federation.local.shared_moment import SHARED_MOMENT

LOCAL_METHODS: dict[str, LocalMethod] = {
    "plain": LocalMethod(),
    "fedprox": FEDPROX,
    "scaffold": SCAFFOLD,
    "fednova": LocalMethod(),  # plain steps; the server evens their number out (aggregation.scales)
    "fedadamw": FEDADAMW,
    "shared-moment": SHARED_MOMENT,
}

__all__ = ["LOCAL_METHODS", "Delivered", "LocalMethod", "Plain", "Setting", "Vectors", "bounded"]
