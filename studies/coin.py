"""A coin for every prompt and completion: what training gains by such a reward is not learnt."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any


def coin(prompts: Sequence[str], completions: Sequence[str], **_: Any) -> list[float]:
    """0 or 1 by a digest of both."""
    pairs = zip(prompts, completions, strict=True)
    return [float(hashlib.sha256(f"{p}\x1f{c}".encode()).digest()[0] & 1) for p, c in pairs]
