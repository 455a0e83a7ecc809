"""What lying clients send instead of their updates, by recipe name.

A new one is one new file and one line here.
"""

from __future__ import annotations

from hanse.adversary.updates.base import Scene, UpdateAttack
from hanse.adversary.updates.free_rider import free_rider
from hanse.adversary.updates.gaussian import gaussian
from hanse.adversary.updates.ipm import ipm
from hanse.adversary.updates.lie import lie
from hanse.adversary.updates.min_max import min_max
from hanse.adversary.updates.min_sum import min_sum
from hanse.adversary.updates.replay import replay
from hanse.adversary.updates.scaling import scaling
from hanse.adversary.updates.sign_flip import sign_flip
from hanse.adversary.updates.zero import zero

UPDATE_ATTACKS: dict[str, UpdateAttack] = {
    "sign-flip": sign_flip,
    "gaussian": gaussian,
    "zero": zero,
    "free-rider": free_rider,
    "replay": replay,
    "scaling": scaling,
    "lie": lie,
    "ipm": ipm,
    "min-max": min_max,
    "min-sum": min_sum,
}

__all__ = ["UPDATE_ATTACKS", "Scene", "UpdateAttack"]
