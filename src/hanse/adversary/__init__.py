"""Those who lie: attacks on what clients send, for studies and tests. By recipe name.

A new one is one new file and one line here.
"""

from __future__ import annotations

from hanse.adversary.base import UpdateAttack
from hanse.adversary.inflate_signal import inflate_signal

UPDATE_ATTACKS: dict[str, UpdateAttack] = {"inflate-signal": inflate_signal}

__all__ = ["UPDATE_ATTACKS", "UpdateAttack"]
