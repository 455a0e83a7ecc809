"""Points as a rule sees them, and as a server combines them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hanse.federation.robust.base import View
from hanse.federation.robust.combining import RobustCombination, Settled, Updates, reads_of
from hanse.recipe.federation import FederationSpec
from hanse.recipe.robust import RobustSpec

RULES = (
    "krum",
    "multi-krum",
    "bulyan",
    "median",
    "trimmed-mean",
    "geometric-median",
    "centred-clipping",
    "norm-clipping",
    "fltrust",
    "dnc",
)
BASE = torch.linspace(-1, 1, 6)


def points(*rows: float | Sequence[float]) -> Tensor:
    """Updates, float64, shape (n, d); numbers are updates of one entry."""
    return torch.tensor([[row] if isinstance(row, (int, float)) else list(row) for row in rows]).double()


def view(updates: Tensor, liars: int, anchor: Tensor | None = None, weights=None, **spec) -> View:
    count = len(updates)
    anchor = torch.zeros(updates.shape[1]) if anchor is None else anchor
    rows = torch.cat([updates, anchor.double()[None]])
    shares = torch.full((count,), 1 / count) if weights is None else torch.tensor(weights)
    return View(RobustSpec(byzantine=liars, **spec), rows @ rows.T, shares.double(), liars)


def settle(
    rule: str,
    updates: Tensor,
    liars: int,
    *,
    round: int = 1,
    memory=None,
    weights=None,
    root: Tensor | None = None,
    base: Tensor | None = None,
    pairs=(),
    federation=None,
    **robust,
) -> Settled:
    """What a server makes of updates, shape (n, d), of values without LoRA unless `pairs` are given."""
    base = torch.zeros(updates.shape[1]).double() if base is None else base
    robust_spec = RobustSpec(rule=rule, byzantine=liars, **robust)
    spec = FederationSpec(robust=robust_spec, **(federation or {"weighting": "uniform"}))
    values = [base + update for update in updates]
    shares = [1 / len(values)] * len(values) if weights is None else weights
    combination = RobustCombination(spec, 0, None if root is None else lambda round, base: root)
    read = Updates(base, reads_of(values.__getitem__, range(len(values))), pairs)
    return combination.settle(round, memory or {}, read, shares, liars, lambda pair: torch.zeros(0))


def moved(settled: Settled, base: Tensor | None = None) -> Tensor:
    target = settled.combined.target
    return target if base is None else target - base.double()
