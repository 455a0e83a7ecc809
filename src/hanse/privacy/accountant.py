"""How privacy losses add up over steps of the Poisson-sampled Gaussian mechanism, by `dp-accounting`.

"rdp": Rényi divergences of whole orders (Mironov et al., 1908.10530). "prv": the distribution of the privacy
loss itself, composed numerically and rounded upwards (Gopi et al., 2106.02848; Doroshenko et al.,
2207.04380). Both are upper bounds for adding or removing one record.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from hanse.recipe.privacy import AccountantName
from hanse.tasks.optional import require

_ORDERS = (*range(2, 65), 80, 96, 128, 192, 256, 512, 1024)
_GRID = 1e-3
"""Privacy losses are rounded up to multiples of it."""
_CLOSE = 1.0005
_LARGEST_NOISE = 1e6


@lru_cache(maxsize=4096)
def epsilon(accountant: AccountantName, noise: float, rate: float, steps: int, delta: float) -> float:
    """Of so many steps, each with noise of `noise` times the sensitivity on a sample at `rate`.

    Raises RecipeError where the extra `dp` is not installed.
    """
    if steps == 0:
        return 0.0
    if noise == 0:
        return math.inf
    accounting = require("dp_accounting", "dp", "privacy.enabled")
    event = accounting.GaussianDpEvent(noise)
    if rate < 1:
        event = accounting.PoissonSampledDpEvent(rate, event)
    return float(_accountant(accountant).compose(event, steps).get_epsilon(delta))


def _accountant(name: AccountantName) -> Any:
    if name == "rdp":
        return require("dp_accounting.rdp", "dp", "privacy.enabled").RdpAccountant(orders=_ORDERS)
    pld = require("dp_accounting.pld", "dp", "privacy.enabled")
    return pld.PLDAccountant(value_discretization_interval=_GRID)


def calibrate(accountant: AccountantName, budget: float, delta: float, rate: float, steps: int) -> float:
    """The least noise, to a twentieth of a percent, with which `steps` steps cost `budget` at most.

    Raises ValueError where no noise of up to a million is enough.
    """

    def cost(noise: float) -> float:
        return epsilon(accountant, noise, rate, steps, delta)

    high = calibrate("rdp", budget, delta, rate, steps) if accountant == "prv" else 1.0
    while cost(high) > budget:
        high *= 2
        if high > _LARGEST_NOISE:
            raise ValueError(f"no noise makes {steps} steps cost {budget:g} at delta {delta:g}")
    low = high
    while cost(low := low * 0.8) <= budget:
        high = low
    while high / low > _CLOSE:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if cost(middle) > budget else (low, middle)
    return high


def affordable(
    accountant: AccountantName, budget: float, delta: float, rate: float, noise: float, most: int
) -> int:
    """How many steps, of `most`, cost `budget` at most."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        within = epsilon(accountant, noise, rate, middle, delta) <= budget
        low, high = (middle, high) if within else (low, middle - 1)
    return low
