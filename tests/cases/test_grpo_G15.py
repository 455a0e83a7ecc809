"""G15: a length normalisation differs silently from the paper. Here: each has a name and a golden value."""

from __future__ import annotations

import math

import pytest

from grpo.written import inputs
from hanse.grpo.objectives import OBJECTIVES, Clipping

# Per token, -min(w A, clip(w) A): rollout 0 gives -1, -1.3, -0.5; rollout 1 gives 3, 1.6.
GOLDEN = {
    "grpo": ((-2.8) / 3 + 4.6 / 2) / 2,
    "bnpo": (-2.8 + 4.6) / 5,
    "dapo": (-2.8 + 4.6) / 10,
    "dr_grpo": (-2.8 + 4.6) / (2 * 4),
    # sequence ratios (1 * 1.5 * 0.5)^(1/3) and (1.5 * 0.5)^(1/2)
    "gspo": (-(0.75 ** (1 / 3)) + 2 * 0.75**0.5) / 2,
    # weights min(w, 1.3) on -A log pi: CISPO's clip is on the weight itself, not on 1 + it
    "cispo": (1 * 1 + 1.3 * 2 + 0.5 * 3 - 2 * (1.3 * 0.5 + 0.5 * 1.5)) / 10,
    # sequence ratio 0.75 in both, clipped to 0.8 only where A < 0
    "rloo": (-0.75 + 1.6) / 2,
}


def test_every_objective_has_a_golden_value():
    assert set(GOLDEN) == set(OBJECTIVES)


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_golden_value(name: str):
    clipping = Clipping(0.2, 1.3) if name == "cispo" else Clipping(0.2, 0.3)
    loss = OBJECTIVES[name](inputs(clipping=clipping))
    assert float(loss.value) == pytest.approx(GOLDEN[name], rel=1e-12)
    assert math.isfinite(float(loss.value))
