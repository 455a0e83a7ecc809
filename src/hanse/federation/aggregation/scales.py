"""Rules that make clients' updates comparable before they are averaged: one factor a client."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.federation.weighting import Standing


def equal_norms(weights_C: Sequence[float], standings_C: Sequence[Standing]) -> list[float]:
    """c_k = (sum_j w_j |d_j|) / |d_k|: every update gets the mean length. 1 where an update is zero."""
    mean = sum(w * s.norm for w, s in zip(weights_C, standings_C, strict=True))
    return [mean / s.norm if s.norm > 0 else 1.0 for s in standings_C]


def equal_steps(weights_C: Sequence[float], standings_C: Sequence[Standing]) -> list[float]:
    """FedNova (2007.07481): c_k = (sum_j w_j tau_j) / tau_k, tau the optimiser updates that were done.

    Clients skip steps without signal, so they differ. 1 where a client did none.
    """
    mean = sum(w * s.signal.updates for w, s in zip(weights_C, standings_C, strict=True))
    return [mean / s.signal.updates if s.signal.updates else 1.0 for s in standings_C]
