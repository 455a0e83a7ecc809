"""Coherence weighting (ours): by how much of a client's update is signal rather than noise.

With g_s the raw gradient of local step s of S: S_k = (|sum g|^2 - sum |g|^2) / (S (S - 1)) estimates the
squared norm of the true gradient without bias, N_k = mean |g|^2 - S_k the noise, and
rho_k = [S_k]+ / ([S_k]+ + N_k / S) the share of the summed gradient's energy that is signal.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from hanse.federation.weighting.base import Standing, State, smoothed
from hanse.recipe.federation import WeightsSpec


def signal_share(sum_squared: float, squares: float, steps: int) -> float:
    """rho from |sum_s g_s|^2, sum_s |g_s|^2 and S; 0 where fewer than two steps tell nothing."""
    if steps < 2 or squares <= 0:
        return 0.0
    signal = max(0.0, (sum_squared - squares) / (steps * (steps - 1)))
    noise = max(0.0, squares / steps - signal)
    return signal / (signal + noise / steps)


def coherence(spec: WeightsSpec, state: State, standings_C: Sequence[Standing]) -> tuple[list[float], State]:
    """w_k ~ rho_k |sum_s g_s| / |update_k|, smoothed by `ema`, its ratio to the median capped at 1.

    The client reports rho_k |sum_s g_s|; the server knows the norm of the update itself.
    """
    own = {s.client: s.signal.coherence / s.norm if s.norm > 0 else 0.0 for s in standings_C}
    mean, state = smoothed(state, own, spec.ema)
    middle = statistics.median(mean[s.client] for s in standings_C)
    if middle <= 0:
        return [mean[s.client] for s in standings_C], state
    return [min(1.0, mean[s.client] / middle) for s in standings_C], state
