"""What a client checks of the terms that a server names: by them it could make a sum of one client's update,
though every mask is in place. What follows from the recipe, a client works out for itself.
"""

from __future__ import annotations

from torch import Tensor

from hanse.federation.secure.messages import Invitation
from hanse.federation.weighting import UNCAPPED
from hanse.federation.wire.frame import WireError
from hanse.privacy.secure.graph import MOST_NEIGHBOURS
from hanse.recipe.federation import FederationSpec

_ROUNDING = 1e-9


def check_terms(asked: Invitation, spec: FederationSpec, reach: float | None) -> None:
    """`reach`: the range that this client works out, None: where it knows none but the recipe's. Raises
    WireError, in words, for terms that no honest server names."""
    due = spec.secure.range if reach is None else reach
    if due is not None and asked.reach != due:
        raise WireError("names another range than the recipe")
    degree = MOST_NEIGHBOURS if spec.secure.neighbours is None else spec.secure.neighbours
    if len(asked.peers) != min(degree, asked.addends - 1):
        raise WireError(f"names {len(asked.peers)} peers where {asked.addends} clients take part")
    least, most = bounds(spec, asked.addends)
    if not least * (1 - _ROUNDING) <= asked.weight <= most * (1 + _ROUNDING):
        raise WireError(f"names a weight of {asked.weight:.3g} among {asked.addends} clients")


def bounds(spec: FederationSpec, clients: int) -> tuple[float, float]:
    """The least and the most that one of so many clients can weigh. What others reported is not known here:
    under "samples" and "fixed" a client may be all."""
    if spec.weighting == "uniform":
        return 1 / clients, 1 / clients
    if spec.weighting in UNCAPPED or spec.weights.cap is None:
        return 0.0, 1.0
    return 0.0, min(1.0, spec.weights.cap / clients)


def largest_of(base: Tensor) -> float:
    """The largest size of the round's values, from which both ends work out the range."""
    return float(base.float().abs().max()) if base.numel() else 0.0
