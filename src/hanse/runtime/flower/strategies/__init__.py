"""Our weighting and aggregation as Flower strategies, for a ServerApp of your own.

Clients are yours too: they answer a TRAIN message with an ArrayRecord of the names and shapes that they
received, and a MetricRecord with `num-examples`, `reward-mean` and `reward-std`.
"""

from __future__ import annotations

from hanse.runtime.flower.strategies.base import Usable
from hanse.runtime.flower.strategies.robust import HanseRobust
from hanse.runtime.flower.strategies.weighted import HanseRewardWeighted

__all__ = ["HanseRewardWeighted", "HanseRobust", "Usable"]
