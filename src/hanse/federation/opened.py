"""What a server holds while a round is open."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from hanse.federation.messages import Report
from hanse.federation.screening import Screen, Screened


@dataclass
class Opened:
    """An open round. `base`: what everybody gets, in the exchange dtype, shape (numel,)."""

    digest: str
    base: Tensor
    clients: list[int]
    screen: Screen
    granted: dict[int, int]
    prompts: dict[int, int]
    away: dict[int, int]
    reports: dict[int, Report] = field(default_factory=dict)
    refused: list[Screened] = field(default_factory=list)
    bytes_up: int = 0
    bytes_down: int = 0
