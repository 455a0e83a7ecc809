"""What the tiny policy reads and writes: it comes with the task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Vocabulary:
    """Tokens in the order of their ids, behind those for padding and end, and how text falls into them:
    each character is one, or each word between spaces."""

    tokens: tuple[str, ...]
    split: Literal["characters", "words"]
