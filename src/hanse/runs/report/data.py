"""What a report is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class ReportData:
    """A run, as plain data; any key of a row or of the summary may be missing.

    `exchange`: samples of what nodes of a swarm sent; `control`: rounds of the same swarm without liars.
    """

    name: str
    mode: str
    recipe_toml: str
    summary: Row
    rounds: Sequence[Row]
    steps: Sequence[Row]
    completions: Sequence[Row]
    environment: Mapping[str, str]
    partition: Sequence[Row]
    exchange: Sequence[Row] = ()
    control: Sequence[Row] = ()

    @property
    def judged(self) -> str:
        """What a client's own number of a round says."""
        return "pairs right" if self.mode == "reward-model" else "reward"
