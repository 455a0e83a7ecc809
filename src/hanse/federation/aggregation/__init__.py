"""How updates combine."""

from __future__ import annotations

from hanse.federation.aggregation.mean import weighted_mean

__all__ = ["weighted_mean"]
