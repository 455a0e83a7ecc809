"""What a run under privacy may say of itself, and what it may not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

COVERED = (
    "Against the server and all other clients together, everything client k sends is (ε_k, "
    "δ_k)-differentially private for adding or removing one problem with its group, by composition over all "
    "its subsampled steps. Disjoint clients: the largest ε_k counts; of a problem held by several clients "
    "the losses add; nothing is gained from drawing clients."
)
NOT_COVERED = (
    "Not protected: that a client takes part, how many problems it has, its data set as a whole, problems "
    "that depend on one another, its own records of its run, how long a step takes, the starting policy, "
    "validation and held-out problems. What other runs learn from the same problems adds to it."
)
ALONE = (
    "The trained policy is (ε, δ)-differentially private for adding or removing one training problem with "
    "its group, by composition over all subsampled steps."
)
SEEDED = (
    "None: keys were made from the recipe's seed, so everybody who has the recipe can take the noise off."
)
UNBOUNDED = "None: a client added no noise, or did not say what it spent."


def kept_back(seeded: bool, spent: float) -> str | None:
    """Why there is no guarantee, if there is none."""
    if seeded:
        return SEEDED
    return None if math.isfinite(spent) else UNBOUNDED


def statement(spent: Mapping[str, Mapping[str, Any]], *, together: bool) -> str:
    """The guarantee of a run in words. `spent`: by client name epsilon (None: infinite), delta and whether
    the key was `seeded`; `together`: there are other parties to be protected from."""
    if not spent:
        return UNBOUNDED
    losses = {name: math.inf if s["epsilon"] is None else float(s["epsilon"]) for name, s in spent.items()}
    reason = kept_back(any(s["seeded"] for s in spent.values()), max(losses.values()))
    if reason is not None:
        return reason
    each = ", ".join(f"{name} ({losses[name]:.3g}, {s['delta']:.1e})" for name, s in spent.items())
    label = "(ε_k, δ_k)" if together else "(ε, δ)"
    return f"{COVERED if together else ALONE} {NOT_COVERED} {label}: {each}."
