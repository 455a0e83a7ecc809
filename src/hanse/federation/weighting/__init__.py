"""Weightings, by recipe name. A new one is one new file and one line here."""

from __future__ import annotations

from hanse.federation.weighting.base import State, Weighting
from hanse.federation.weighting.samples import samples
from hanse.federation.weighting.uniform import uniform

WEIGHTINGS: dict[str, Weighting] = {"samples": samples, "uniform": uniform}

__all__ = ["WEIGHTINGS", "State", "Weighting"]
