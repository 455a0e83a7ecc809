"""The objectives, by recipe name. A new one is one new file and one line here."""

from __future__ import annotations

from hanse.grpo.objectives.base import (
    Clipping,
    KlEstimator,
    Loss,
    LossInputs,
    Objective,
    Totals,
    kl_divergence,
)
from hanse.grpo.objectives.bnpo import bnpo
from hanse.grpo.objectives.cispo import cispo
from hanse.grpo.objectives.dapo import dapo
from hanse.grpo.objectives.dr_grpo import dr_grpo
from hanse.grpo.objectives.grpo import grpo
from hanse.grpo.objectives.gspo import gspo
from hanse.grpo.objectives.rloo import rloo

OBJECTIVES: dict[str, Objective] = {
    "grpo": grpo,
    "dr_grpo": dr_grpo,
    "dapo": dapo,
    "bnpo": bnpo,
    "gspo": gspo,
    "cispo": cispo,
    "rloo": rloo,
}

__all__ = [
    "OBJECTIVES",
    "Clipping",
    "KlEstimator",
    "Loss",
    "LossInputs",
    "Objective",
    "Totals",
    "kl_divergence",
]
